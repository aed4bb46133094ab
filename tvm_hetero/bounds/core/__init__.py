"""What bounds are made of: linear programs whose value is a proof, placements of a module."""
