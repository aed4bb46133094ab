"""Matrix products: with constant weights, of batches, and their register tiles."""
