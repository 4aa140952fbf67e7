"""The image that a replica waits for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WantedImage:
    """Projects have different rights at a registry, so each pulls for itself."""

    name: str
    # Empty for a replica of no project.
    project: str = ""

    def __str__(self) -> str:
        return self.name
