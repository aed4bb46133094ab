"""Parts of the benchmarks that run whole plans: models, contenders, turns, and their page."""
