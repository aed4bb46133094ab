"""MILP-SPLIT (DiviML, section 4): modules between articulation points, joined by a table."""
