"""Quotas, budgets, approval thresholds and the planner's policy."""
