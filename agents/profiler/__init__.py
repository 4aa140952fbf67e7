"""What a replica gets that is to be profiled: a file that Python runs by itself, and variables."""
