"""Tools for TIR: blocks, nests, batches, prefetch, vector math; no operator in particular."""
