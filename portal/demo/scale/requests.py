"""Requests of many kinds, each read by the one check that a submit uses."""

from typing import Any

from portal.accounts.models import Project, User
from portal.demo.scale.size import Chance
from portal.jobs.models import Job
from scheduler.core.request import RequestLimits, parse_request, request_as_dict

WORDS = ("train", "eval", "sweep", "finetune", "embed", "distill", "render", "align", "probe")
WHAT = ("resnet", "llama", "whisper", "unet", "bert", "gnn", "clip", "mae", "moe", "diffusion")
LIMITS = ("30m", "1h", "4h", "12h", "1d", "3d")
KINDS = ("batch",) * 8 + ("notebook", "service")
PRIORITIES = ("normal",) * 7 + ("high", "low", "low")


class Asker:
    """Makes unsaved jobs. Parsing is done once for each shape."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._read: dict[str, dict[str, Any]] = {}

    def job(self, owner: User, project: Project, device: dict[str, Any], replicas: int = 1) -> Job:
        pick = self._chance.random.choice
        limit, kind, priority = pick(LIMITS), pick(KINDS), pick(PRIORITIES)
        body = self._canonical(device, replicas, limit, kind if replicas == 1 else "batch")
        name = f"{pick(WHAT)}-{pick(WORDS)}-{self._chance.random.randint(1, 99)}"
        body = body | {"project": project.slug, "name": name, "priority": priority}
        return Job(
            uid=self._chance.uuid(),
            project=project,
            owner=owner,
            name=name,
            kind=body["kind"],
            image=body["image"],
            request=body,
            replica_count=replicas,
            cpu_milli=body["cpu"] * 1_000,
            memory_mib=16 * 1_024,
            time_limit_seconds=_seconds(limit),
            priority=priority,
            infrastructure_retries_left=3,
        )

    def _canonical(
        self, device: dict[str, Any], replicas: int, limit: str, kind: str
    ) -> dict[str, Any]:
        key = f"{device} {replicas} {limit} {kind}"
        if key not in self._read:
            body = {
                "project": "p",
                "name": "n",
                "image": "pytorch:2.9",
                "command": ["python", "train.py"],
                "device": device,
                "replicas": replicas,
                "cpu": 4,
                "memory": "16GiB",
                "time_limit": limit,
                "kind": kind,
            }
            self._read[key] = request_as_dict(parse_request(body, RequestLimits()))
        return self._read[key]


def _seconds(limit: str) -> int:
    return int(limit[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[limit[-1]]
