"""Identical elements on identical machines: counts instead of names."""
