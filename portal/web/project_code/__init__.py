"""The page of a project's code: what was sent, and the commits that its jobs ran."""
