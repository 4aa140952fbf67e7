"""A model's config.json among the files that a project stores, or in one of its volumes: found, and
read within bounds. Files of volumes are on nodes, and a node is asked for one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.contract.file_transfer import TreeKind
from agents.contract.tunnel import REFUSAL_SENTENCES, StreamRefusal
from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_to_work_in
from portal.advice.question import InvalidQuestion
from portal.advice.reading import MAX_CONFIG_BYTES
from portal.error_codes import ErrorCode
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
from portal.volumes.node_files import volume_file_content
from scheduler.core.request.volumes import VOLUME_NAME

NAME = "config.json"
# Before the ":" of a place in a volume; no job and no tree is called so.
VOLUME = "volume"
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
    """What is in the file that the question's `config_file` names as JOB:PATH, TREE:PATH or
    volume:NAME/PATH; empty where it names none. The user sees the project of the job or tree, as
    for any file of it, and works in one that has the volume, as for a job with it.

    Raises InvalidQuestion, and StoreError."""
    place = str(values.get("config_file") or "").strip()[:MAX_PLACE]
    if not place or values.get("model") or values.get("config"):
        # Nothing is read for a question that names two models and is refused.
        return ""
    owner, _, path = place.partition(":")
    try:
        if not path:
            sentence = "Name a file as JOB:PATH, such as J-12:model/config.json"
            raise Refused(ErrorCode.INVALID, sentence)
        if owner == VOLUME:
            content = _volume_content(user, path, str(values.get("project") or ""))
        else:
            content = _stored_content(_stored_file(user, owner, path))
    except Refused as refused:
        raise InvalidQuestion({"config_file": refused.message}) from refused
    return content.decode(errors="replace")


def volume_place(volume: str, path: str) -> str:
    """As a question names a file of a volume; without a path its config.json."""
    return f"{VOLUME}:{volume}/{path or NAME}"


def _volume_content(user: User, path: str, project: str) -> bytes:
    """`project`: for whose jobs it is read, if the user works there. Raises Refused."""
    name, _, inner = path.partition("/")
    projects = projects_to_work_in(user).filter(volumes__name=name).order_by("slug")
    having = {each.slug: each for each in projects} if re.fullmatch(VOLUME_NAME, name) else {}
    chosen = having.get(project) or next(iter(having.values()), None)
    if chosen is None:
        raise Refused(
            ErrorCode.NOT_FOUND, "There is no such volume, or you work in no project that has it"
        )
    return volume_file_content(chosen.volumes.get(name=name), chosen, inner)


def _stored_content(file: StoredFile) -> bytes:
    """Raises Refused, and StoreError."""
    if file.size > MAX_CONFIG_BYTES:
        raise Refused(ErrorCode.INVALID, REFUSAL_SENTENCES[StreamRefusal.FILE_TOO_LARGE])
    return b"".join(range_pieces(file.stream, 0, file.size, OBJECT_BYTES))


def _stored_file(user: User, owner: str, path: str) -> StoredFile:
    """Raises Refused."""
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
