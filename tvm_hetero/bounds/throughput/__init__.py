"""Lower bounds of the period: shares, packing patterns, columns."""
