"""What MIG geometry is worth: layout graphs, placement values and arrival prices."""
