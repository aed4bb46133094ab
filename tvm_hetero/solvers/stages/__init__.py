"""Contiguous pipeline stages: dynamic programs over chains and ideals."""
