"""Constraint programming with OR-tools' CP-SAT."""
