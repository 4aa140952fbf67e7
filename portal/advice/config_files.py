"""A model's config.json among the files that a project stores: found, and read within bounds.

Files of volumes are on nodes, and the portal reads none of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.contract.file_transfer import TreeKind
from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.advice.question import InvalidQuestion
from portal.advice.reading import MAX_CONFIG_BYTES
from portal.errors import Refused
from portal.files.models import StoredFile, TreeEntry
from portal.files.receiving import OBJECT_BYTES
from portal.files.selectors import (
    files_named,
    is_tree_id,
    job_content,
    tree_content,
    visible_tree,
)
from portal.jobs.selectors import job_visible
from portal.storage.ranges import range_pieces

NAME = "config.json"
# Of a project's newest trees so many are looked through, and so many files are offered.
MAX_TREES, MAX_FILES = 30, 50
# Of a file's place, in characters.
MAX_PLACE = 1_200


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config.json that a project stores."""

    place: str
    """TREE:PATH, as a question names it."""
    job: str
    """The label of the job that wrote it; empty for code."""
    kind: TreeKind
    path: str


def config_files(project: Project) -> list[ConfigFile]:
    """Those of the newest outputs, checkpoints and code of the project. Two queries."""
    return [_config_file(entry) for entry in files_named(project, NAME, MAX_TREES, MAX_FILES)]


def config_text(user: User, values: Mapping[str, Any]) -> str:
    """What is in the file that the question's `config_file` names as JOB:PATH or TREE:PATH; empty
    where it names none. The user sees the project of the job or tree, as for any file of it.

    Raises InvalidQuestion, and StoreError."""
    place = str(values.get("config_file") or "").strip()
    if not place:
        return ""
    try:
        file = _content(user, place[:MAX_PLACE])
    except Refused as refused:
        raise InvalidQuestion({"config_file": refused.message}) from refused
    if file.size > MAX_CONFIG_BYTES:
        sentence = "It is larger than 256 KB: choose the model's config.json alone"
        raise InvalidQuestion({"config_file": Message(sentence)})
    content = b"".join(range_pieces(file.stream, 0, file.size, OBJECT_BYTES))
    return content.decode(errors="replace")


def _content(user: User, place: str) -> StoredFile:
    """Raises Refused, and InvalidQuestion for what is no place."""
    owner, _, path = place.partition(":")
    if not path:
        sentence = "Name a file as JOB:PATH, such as J-12:model/config.json"
        raise InvalidQuestion({"config_file": Message(sentence)})
    if is_tree_id(owner):
        return tree_content(visible_tree(user, UUID(owner)), path)
    return job_content(job_visible(user, owner), path)


def _config_file(entry: TreeEntry) -> ConfigFile:
    tree = entry.tree
    return ConfigFile(
        place=f"{tree.pk}:{entry.path}",
        job=tree.job.label if tree.job else "",
        kind=TreeKind(tree.kind),
        path=entry.path,
    )
