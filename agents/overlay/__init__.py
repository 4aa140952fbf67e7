"""Networks of gangs over several engines: what this node offers, its links, firewall and key."""
