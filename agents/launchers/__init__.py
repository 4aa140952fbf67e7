"""How the processes of a replica are started: one file for each launcher, and none with state."""
