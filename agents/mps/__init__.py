"""MPS shares: control daemons, what each share may do, and who is refused. See README.md."""
