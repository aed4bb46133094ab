"""Tokens out of a decoder: sampling, sequences, continuous batching. Nothing here needs TVM."""
