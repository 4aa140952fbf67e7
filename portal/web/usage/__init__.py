"""The Usage page: GPU-hours over time, quotas and budgets."""
