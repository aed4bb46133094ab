"""What `benchmarks.limits` is made of: cases of the zoo, and calls whose time is taken."""
