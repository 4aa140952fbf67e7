"""The commands, by what they are for. Each calls REST, and prints in words of portal.cli."""
