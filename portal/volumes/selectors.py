"""Read volumes: which a project may use, which a job uses, and what nodes measured of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from agents.contract.message import Message
from agents.contract.volumes import DesiredVolume, root_access
from portal.accounts.models import Membership, Project, User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.volumes.models import Volume, VolumeUse
from scheduler.core.model.states import JOB_FINAL, NodeStatus
from scheduler.core.request import JobRequest
from scheduler.core.request.values import VolumeRequest

SPACE = "facts__volume_space"
_LIVE = ~Q(uses__job__status__in=sorted(map(str, JOB_FINAL)))


@dataclass(frozen=True, slots=True)
class NodeRoot:
    """A root that one node offers now."""

    node: str
    node_id: UUID
    is_online: bool
    root: str
    read_only: bool
    free_mib: int
    total_mib: int
    sizes: Mapping[str, Mapping[str, Any]]
    """By folder below the root, what the node measured."""
    driver: str = ""
    """That of the engine's volumes, whose space nobody knows; empty for a folder."""


@dataclass(frozen=True, slots=True)
class VolumeState:
    """A volume with what nodes say about it."""

    volume: Volume
    nodes: tuple[NodeRoot, ...]
    """Those that offer its root."""
    used_mib: int | None
    """As the node with the newest measurement saw it; None if none has measured it."""
    used_files: int | None
    is_partial: bool
    measured_at: datetime | None

    @property
    def is_over_quota(self) -> bool:
        quota, used = self.volume.quota_mib, self.used_mib or 0
        files, used_files = self.volume.quota_files, self.used_files or 0
        return bool((quota and used > quota) or (files and used_files > files))


def visible_volumes(user: User) -> QuerySet[Volume]:
    """Those of the user's projects; a platform admin sees all."""
    rows = Volume.objects.all()
    if not user.is_platform_admin:
        own = Membership.objects.filter(user=user).values("project_id")
        rows = rows.filter(projects__in=own).distinct()
    mine = Project.objects.order_by("slug")
    if not user.is_platform_admin:
        mine = mine.filter(pk__in=Membership.objects.filter(user=user).values("project_id"))
    return rows.prefetch_related(Prefetch("projects", queryset=mine)).order_by("name")


def visible_volume(user: User, name: str) -> Volume:
    """Raises Refused(not_found), alike for a volume that does not exist and an invisible one."""
    row = visible_volumes(user).filter(name=name).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such volume, or you may not see it")
    return row


def usable_volumes(projects: Iterable[Project]) -> QuerySet[Volume]:
    """Those that some of these projects may use."""
    return Volume.objects.filter(projects__in=list(projects)).distinct().order_by("name")


def require_volumes(project: Project, requests: Iterable[VolumeRequest]) -> dict[str, Volume]:
    """By name. Raises Refused(volume_unknown), alike for volumes that do not exist and for those of
    other projects."""
    names = {each.volume for each in requests}
    if not names:
        return {}
    found = {row.name: row for row in project.volumes.filter(name__in=names)}
    if missing := sorted(names - found.keys()):
        own = project.volumes.order_by("name").values_list("name", flat=True)
        sentence = Message(
            "%(project)s has no volume %(name)s. Its volumes: %(names)s",
            project=project.slug,
            name=missing[0],
            names=", ".join(own) or "none",
        )
        raise Refused(ErrorCode.VOLUME_UNKNOWN, sentence, "volumes")
    return found


def access_of_request(request: JobRequest) -> tuple[str, ...]:
    """What the volumes of a request need of a node, as the planner takes it."""
    names = [each.volume for each in request.volumes]
    rows = Volume.objects.filter(projects__slug=request.project, name__in=names)
    return _access_of(request.volumes, {row.name: row for row in rows})


def _access_of(requests: Iterable[VolumeRequest], volumes: Mapping[str, Volume]) -> tuple[str, ...]:
    words = {
        root_access(row.root, read_only=each.read_only or row.read_only)
        for each in requests
        if (row := volumes.get(each.volume)) is not None
    }
    return tuple(sorted(words))


def access_of_jobs(uids: Collection[UUID]) -> dict[UUID, tuple[str, ...]]:
    """The same of submitted jobs, by uid."""
    words: dict[UUID, set[str]] = defaultdict(set)
    rows = VolumeUse.objects.filter(job__uid__in=uids)
    for uid, root, read_only in rows.values_list("job__uid", "volume__root", "read_only"):
        words[uid].add(root_access(root, read_only=read_only))
    return {uid: tuple(sorted(found)) for uid, found in words.items()}


def desired_volumes(jobs: Collection[int]) -> dict[int, tuple[DesiredVolume, ...]]:
    """What nodes are told, by job."""
    found: dict[int, list[DesiredVolume]] = defaultdict(list)
    rows = VolumeUse.objects.filter(job__in=jobs).select_related("volume").order_by("path")
    for use in rows:
        found[use.job_id].append(
            DesiredVolume(
                name=use.volume.name,
                root=use.volume.root,
                subpath=use.volume.subpath,
                path=use.path,
                read_only=use.read_only,
            )
        )
    return {job: tuple(volumes) for job, volumes in found.items()}


def with_use_counts(rows: QuerySet[Volume]) -> QuerySet[Volume]:
    """With `live_uses`: jobs that have not ended."""
    return rows.annotate(live_uses=Count("uses__job", filter=_LIVE, distinct=True))


def node_roots() -> list[NodeRoot]:
    """Of all nodes that offer any, by node."""
    rows = Node.objects.filter(facts__has_key="volume_space")
    rows = rows.exclude(status=NodeStatus.RETIRED).order_by("name")
    return [
        NodeRoot(
            node=name,
            node_id=pk,
            is_online=status == NodeStatus.ONLINE,
            root=root["name"],
            read_only=root["read_only"],
            free_mib=root["free_mib"],
            total_mib=root["total_mib"],
            sizes={size["subpath"]: size for size in root.get("sizes", ())},
            driver=root.get("driver", ""),
        )
        for pk, name, status, roots in rows.values_list("pk", "name", "status", SPACE)
        for root in roots
    ]


def volume_state(volume: Volume, roots: Iterable[NodeRoot]) -> VolumeState:
    nodes = tuple(each for each in roots if each.root == volume.root)
    sizes = [found for each in nodes if (found := each.sizes.get(volume.subpath)) is not None]
    newest = max(sizes, key=lambda size: size["measured_at"], default=None)
    if newest is None:
        return VolumeState(volume, nodes, None, None, False, None)
    at = datetime.fromtimestamp(newest["measured_at"], UTC)
    partial = newest["is_partial"]
    return VolumeState(volume, nodes, newest["mib"], newest["files"], partial, at)
