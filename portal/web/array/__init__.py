"""One array: its members with what each was given and reported, cancelled or retried together."""
