"""What the server counts, and the forms in which it is read."""
