"""MILP-SPLIT (DiviML, section 4): modules between articulation points, joined by tables.

The name is DiviML's; here no MILP is solved. A module is solved by list schedules, annealing and
CP-SAT (`module_bounds`, `module_cpsat`), and what it may be worth between each two devices stands in
a table (`module_table`); dynamic programming joins those of all modules (`chain_table`).
"""
