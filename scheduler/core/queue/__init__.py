"""Whose turn it is, what is promised to whom, and who stops for whom."""
