"""MILP-SPLIT (DiviML, section 4): modules between articulation points, joined by tables.

The name is DiviML's; here no MILP is solved. Modules are solved by list schedules, annealing and
CP-SAT (`module_bounds`, `module_cpsat`), and what one takes between any two devices stands in its
table (`module_table`); the best chain through the tables of all is the answer (`chain_table`).
That is for latency. For energy and throughput, modules have columns, of which chains are chosen
(`energy`, `throughput`).
"""
