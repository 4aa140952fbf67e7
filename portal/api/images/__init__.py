"""REST: image policies of projects."""
