"""A model cut by node: parts, their plans, and what passes between them."""
