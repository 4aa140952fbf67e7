"""The calls to the portal, and the session that keeps one of them open."""
