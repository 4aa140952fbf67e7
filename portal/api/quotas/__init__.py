"""REST: quotas."""
