"""A small JSON file of a volume, such as a model's config.json, which the portal asks a node for.

The stream carries the content from the node to the portal, and nothing the other way.
"""

from dataclasses import dataclass, field

from agents.contract.codec import rule
from agents.contract.message import Message, constant
from agents.contract.volumes import MAX_SUBPATH_BYTES, ROOT_NAME, subpath_problem

# The longest of Hugging Face has 40 KB.
MAX_VOLUME_FILE_BYTES = 256 << 10
SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFileTarget:
    """A file below the folder of a volume."""

    # The node reads what jobs of this project may read.
    project: str = field(metadata=rule(max_length=64))
    root: str = field(metadata=rule(max_length=64, pattern=ROOT_NAME))
    # The volume's folder below the root; empty for the root itself.
    subpath: str = field(metadata=rule(max_length=MAX_SUBPATH_BYTES))
    volume_file: str = field(metadata=rule(max_length=MAX_SUBPATH_BYTES))


def volume_file_problem(path: str) -> Message | None:
    """Why no file of a volume is read at this path."""
    if not path.endswith(SUFFIX) or path.endswith(f"/{SUFFIX}") or path == SUFFIX:
        return constant("Name a file that ends in .json, such as llama/config.json")
    if subpath_problem(path):
        return constant("Write a path below the volume, such as llama/config.json: no '..'")
    return None
