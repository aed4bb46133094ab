"""Products with weights of 4 and 8 bits in groups."""
