"""The operators of Relay, a file for a family; `operator_table` has them all."""
