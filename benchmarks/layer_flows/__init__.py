"""What the benchmark of layers that many nodes share is made of."""
