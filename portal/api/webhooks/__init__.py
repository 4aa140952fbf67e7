"""REST: webhooks and their deliveries."""
