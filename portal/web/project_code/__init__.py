"""The page of a project's code: what was sent, and removed there; the commits that jobs ran."""
