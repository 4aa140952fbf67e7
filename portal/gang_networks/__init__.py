"""Networks of gangs over several nodes, until no node has anything left of them."""
