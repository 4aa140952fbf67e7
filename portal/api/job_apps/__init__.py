"""REST: apps of jobs, their guests, and tokens for apps."""
