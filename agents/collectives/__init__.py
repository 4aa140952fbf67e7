"""What the collective libraries of a replica are told, and why. Pure; the portal shows the same."""
