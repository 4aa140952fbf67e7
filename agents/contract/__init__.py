"""What a node can say and be told: the wire schema and the MIG geometry. Pure, standard library."""
