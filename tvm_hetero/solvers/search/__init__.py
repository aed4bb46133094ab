"""Local search: annealing and hill climbing; genetic and random walk as their baselines."""
