"""The exact MILP, the reference model (DiviML, section 3): one constraint family a file."""
