"""Services: listed, created, and one with its copies and how to call it."""
