"""Limits of owners: quotas with borrowing and lending, budgets, job caps and reclaim."""
