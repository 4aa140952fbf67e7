"""How much of the cluster is available: the one count behind pages, REST and the command line."""
