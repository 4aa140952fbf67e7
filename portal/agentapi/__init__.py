"""What node agents call: enrol, hello, sync, logs. Outside Django's middleware."""
