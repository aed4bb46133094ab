"""What `benchmarks.choose` asks: machines, variants, classes and loads."""
