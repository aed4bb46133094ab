"""What benchmarks/decode.py is made of."""
