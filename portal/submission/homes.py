"""Gives a notebook the volume with the homes of its project: its files are there tomorrow."""

from collections.abc import Iterator
from dataclasses import replace

from agents.contract.message import Message
from agents.launchers.notebook_servers import HOMES
from portal.volumes.homes import home_volume, home_volume_names
from scheduler.core.request import JobRequest
from scheduler.core.request.notebooks import SERVERS
from scheduler.core.request.values import FieldWarning, VolumeRequest


def with_home(request: JobRequest) -> JobRequest:
    """The request with that volume at HOMES, unless it has one there; as it is if it is no notebook
    with a server of ours, or its project has no such volume."""
    if not needs_home(request):
        return request
    name = home_volume(request.project)
    return (
        replace(request, volumes=(*request.volumes, VolumeRequest(name, HOMES)))
        if name
        else request
    )


def needs_home(request: JobRequest) -> bool:
    """Whether it works in a home, and names none itself."""
    is_server = str(request.launcher) in SERVERS
    return is_server and all(each.path != HOMES for each in request.volumes)


def home_warnings(request: JobRequest) -> Iterator[FieldWarning]:
    """`request`: as `with_home` returned it."""
    if needs_home(request):
        name, _ = home_volume_names(request.project)
        yield FieldWarning(
            "volumes",
            Message(
                "what is written in this notebook is lost when it ends, but for its volumes and "
                "the files in TESSERA_OUTPUT_DIR: a platform admin can make a volume %(name)s "
                "that keeps it",
                name=name,
            ),
        )
