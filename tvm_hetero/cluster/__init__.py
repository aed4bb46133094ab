"""A plan over several machines: cut by node, run on Ray, planned again when a node is lost."""
