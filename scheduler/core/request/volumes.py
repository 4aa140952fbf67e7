"""Reads the volumes of a request."""

import re
from collections.abc import Mapping
from typing import Any

from agents.contract.message import Message
from agents.contract.volumes import MAX_VOLUMES, target_problem, targets_problem
from scheduler.core.request.values import ProblemCode, Refuse, VolumeRequest

VOLUME_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
KEYS = frozenset({"volume", "path", "read_only"})


def read_volumes(value: Any, refuse: Refuse) -> tuple[VolumeRequest, ...]:
    """Each is written as an object, or as NAME:/path or NAME:/path:ro."""
    if not isinstance(value, list) or len(value) > MAX_VOLUMES:
        sentence = Message(
            "write a list of at most %(most)s volumes, such as imagenet:/data:ro", most=MAX_VOLUMES
        )
        refuse("volumes", ProblemCode.TYPE, sentence)
        return ()
    found = []
    for index, entry in enumerate(value):
        if (volume := _read(f"volumes.{index}", entry, refuse)) is not None:
            found.append(volume)
    if problem := targets_problem(volume.path for volume in found):
        refuse("volumes", ProblemCode.VALUE, problem)
    return tuple(found)


def write_volumes(volumes: tuple[VolumeRequest, ...]) -> list[dict[str, Any]]:
    """As a request is stored."""
    return [
        {"volume": each.volume, "path": each.path, "read_only": each.read_only} for each in volumes
    ]


def _read(field: str, entry: Any, refuse: Refuse) -> VolumeRequest | None:
    if isinstance(entry, str):
        entry = _parts(entry)
    if not isinstance(entry, Mapping) or not {"volume", "path"} <= set(entry) <= KEYS:
        sentence = "write a volume as NAME:/path, NAME:/path:ro or {volume, path, read_only}"
        refuse(field, ProblemCode.TYPE, sentence)
        return None
    name, path, read_only = entry["volume"], entry["path"], entry.get("read_only", False)
    if not isinstance(name, str) or not re.fullmatch(VOLUME_NAME, name):
        sentence = "write the name of a volume, such as imagenet"
        refuse(f"{field}.volume", ProblemCode.VALUE, sentence)
        return None
    if not isinstance(read_only, bool):
        refuse(f"{field}.read_only", ProblemCode.TYPE, "write true or false, without quotes")
        return None
    problem = target_problem(path) if isinstance(path, str) else target_problem("")
    if problem is not None:
        refuse(f"{field}.path", ProblemCode.VALUE, problem)
        return None
    return VolumeRequest(name, path, read_only)


def _parts(text: str) -> dict[str, Any] | None:
    name, colon, path = text.strip().partition(":")
    if not colon:
        return None
    for ending, read_only in ((":ro", True), (":rw", False)):
        if path.endswith(ending):
            return {"volume": name, "path": path.removesuffix(ending), "read_only": read_only}
    return {"volume": name, "path": path}
