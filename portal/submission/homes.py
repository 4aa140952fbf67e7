"""Gives a notebook the volume with the homes of its project: its files are there tomorrow."""

from collections.abc import Iterator
from dataclasses import replace

from agents.contract.message import Message
from agents.contract.volumes import MAX_VOLUMES, targets_problem
from agents.launchers.notebook_servers import HOMES
from portal.volumes.homes import home_volume, home_volume_names
from scheduler.core.request import JobRequest
from scheduler.core.request.notebooks import SERVERS
from scheduler.core.request.values import FieldWarning, VolumeRequest


def with_home(request: JobRequest) -> JobRequest:
    """The request with that volume at HOMES, unless it has one there; as it is if it is no notebook
    with a server of ours, has no room for one more volume, or its project has none for homes."""
    if not needs_home(request) or not _has_room(request):
        return request
    name = home_volume(request.project)
    if not name:
        return request
    return replace(request, volumes=(*request.volumes, VolumeRequest(name, HOMES)))


def needs_home(request: JobRequest) -> bool:
    """Whether it works in a home, and names none itself."""
    is_server = str(request.launcher) in SERVERS
    return is_server and all(each.path != HOMES for each in request.volumes)


def _has_room(request: JobRequest) -> bool:
    """Whether it may have a volume at HOMES beside its own, by the rules of all requests."""
    paths = [each.path for each in request.volumes]
    return len(paths) < MAX_VOLUMES and targets_problem([*paths, HOMES]) is None


def home_warnings(request: JobRequest) -> Iterator[FieldWarning]:
    """`request`: as `with_home` returned it."""
    if needs_home(request):
        name, _ = home_volume_names(request.project)
        yield FieldWarning(
            "volumes",
            Message(
                "what you write in this notebook is lost when it ends, except in its volumes and "
                "in TESSERA_OUTPUT_DIR: a platform admin can make a volume %(name)s that keeps it",
                name=name,
            ),
        )
