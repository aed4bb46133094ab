"""What `benchmarks.conformance` is made of: the suite, its variants, engines, children, the page."""
