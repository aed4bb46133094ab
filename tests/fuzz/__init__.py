"""Fuzzing: short with fixed seeds in ``make test``, long by ``make fuzz``."""
