"""Lower bounds of the latency: critical paths, loads, linear programs, cuts."""
