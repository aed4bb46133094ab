"""What `benchmarks.serve_soak` is made of: a server in a process, and clients who hang up."""
