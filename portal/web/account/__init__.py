"""Signing in and the Account page: people, their tokens, browsers and second steps."""
