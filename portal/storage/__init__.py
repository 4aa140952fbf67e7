"""Bytes outside the database: objects in a store, and append-only streams made of them."""
