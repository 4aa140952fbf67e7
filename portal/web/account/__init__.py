"""Signing in, and the Account page: tokens, browsers and second factors."""
