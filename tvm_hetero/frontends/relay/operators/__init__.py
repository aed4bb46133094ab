"""The operators of Relay, a file for a family; `table.py` has them all."""
