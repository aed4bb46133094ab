"""What the benchmark of clusters is made of."""
