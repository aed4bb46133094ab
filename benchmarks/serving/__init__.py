"""What `benchmarks.serve_overhead` is made of: servers, each a process, and a client."""
