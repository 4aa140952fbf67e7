"""REST: authentication, problems, idempotency, conditional requests and the schema."""
