"""What `benchmarks.conformance` is made of: suite, variants, engines, children, rows, page."""
