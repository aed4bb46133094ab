"""What `benchmarks.accordion` is made of: profiles of recorded networks, streams, rows."""
