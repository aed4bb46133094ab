"""A model as the front end works on it: its graph, its tensors, and how large it may be."""
