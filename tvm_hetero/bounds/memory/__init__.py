"""Lower bounds under memory limits: Lagrangian prices and labels."""
