"""The exact MILP (DiviML, section 3): one constraint family a file.

The reference model, a baseline: others are compared with it, and `auto` never asks it.
"""
