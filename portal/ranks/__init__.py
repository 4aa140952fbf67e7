"""The ranks of a gang beside each other: how active each is, how far it has come, and which lag."""
