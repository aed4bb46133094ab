"""Local search: annealing, hill climbing, genetic; random walk as their baseline."""
