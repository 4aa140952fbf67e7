"""Webhooks: events of jobs, sent to URLs that users register. See README.md."""
