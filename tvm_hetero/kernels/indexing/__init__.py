"""Gathers and scatters, and what keeps all indices in data within bounds."""
