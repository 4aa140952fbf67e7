"""`agents simulate`: the simulated driver's own command."""

from agents.simdriver.command import main

__all__ = ["main"]
