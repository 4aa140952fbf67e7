"""The pages of the portal. See README.md for the map of pages, rooms and templates."""
