"""All placements in all orders: the proof for small problems."""
