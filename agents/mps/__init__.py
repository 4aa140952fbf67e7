"""MPS shares of a GPU or a MIG instance: control daemons, limits and refusals. See README.md."""
