"""REST: GPU-hours and budgets."""
