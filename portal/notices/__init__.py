"""Notices: mails and chat messages about jobs, budgets and nodes. See README.md."""
