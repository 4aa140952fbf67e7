"""The volumes of the request form: a row for each one that may be used, with its path.

A browser sends `volume:NAME` (and `volume:NAME:2` for a second path) with a path, and `…:ro` beside
it. Together they are the text of the field `volumes`, a line for each volume.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portal.accounts.models import Project
from portal.volumes.selectors import usable_volumes

PREFIX, READ_ONLY = "volume:", ":ro"
# Volumes with a row. Others are written as text.
MAX_ROWS = 40


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """A row: one volume at one path, or at none yet."""

    name: str
    description: str
    input: str
    """The name of its input of the path."""
    path: str
    is_read_only: bool
    """Chosen by the user."""
    may_write: bool
    """The volume allows it."""


@dataclass(frozen=True, slots=True)
class VolumeInputs:
    choices: tuple[VolumeChoice, ...]
    text: str
    """Lines of the field that no row shows."""


def volumes_text(data: Mapping[str, str], text: str) -> str:
    """The field's text from what a browser sent: its own lines, then those of the rows."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for key in data:
        if key.startswith(PREFIX) and not key.endswith(READ_ONLY) and (path := data[key].strip()):
            name = key.removeprefix(PREFIX).partition(":")[0]
            lines.append(f"{name}:{path}" + (READ_ONLY if data.get(f"{key}{READ_ONLY}") else ""))
    return "\n".join(lines)


def volume_inputs(projects: Iterable[Project], text: str) -> VolumeInputs:
    """A row for each line of a volume that the projects may use, and one for each other volume. One
    query."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    choices: list[VolumeChoice] = []
    for row in usable_volumes(projects)[:MAX_ROWS]:
        own = [line for line in lines if line.partition(":")[0] == row.name]
        lines = [line for line in lines if line not in own]
        for index, line in enumerate(own or [""]):
            path = line.partition(":")[2]
            choices.append(
                VolumeChoice(
                    name=row.name,
                    description=row.description,
                    input=f"{PREFIX}{row.name}" + (f":{index + 1}" if index else ""),
                    path=path.removesuffix(READ_ONLY),
                    is_read_only=path.endswith(READ_ONLY),
                    may_write=not row.read_only,
                )
            )
    return VolumeInputs(tuple(choices), "\n".join(lines))
