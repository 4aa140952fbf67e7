"""How long jobs will run, and when waiting jobs will start. See README.md."""
