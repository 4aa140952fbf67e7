"""Job requests of many kinds, parsed and checked as a submit's."""

from typing import Any

from portal.accounts.models import Project, User
from portal.demo.scale.size import SeededRandom
from portal.jobs.models import Job
from scheduler.core.request import RequestLimits, parse_request, request_as_dict

TASKS = ("train", "eval", "sweep", "finetune", "embed", "distill", "render", "align", "probe")
MODELS = ("resnet", "llama", "whisper", "unet", "bert", "gnn", "clip", "mae", "moe", "diffusion")
LIMITS = ("30m", "1h", "4h", "12h", "1d", "3d")
KINDS = ("batch",) * 8 + ("notebook", "service")
PRIORITIES = ("normal",) * 7 + ("high", "low", "low")


class JobFactory:
    """Makes unsaved jobs. Each distinct request is parsed once."""

    def __init__(self, rng: SeededRandom) -> None:
        self._rng = rng
        self._parsed: dict[str, dict[str, Any]] = {}

    def make_job(
        self, owner: User, project: Project, device: dict[str, Any], replicas: int = 1
    ) -> Job:
        pick = self._rng.random.choice
        limit, kind, priority = pick(LIMITS), pick(KINDS), pick(PRIORITIES)
        body = self._canonical(device, replicas, limit, kind if replicas == 1 else "batch")
        name = f"{pick(MODELS)}-{pick(TASKS)}-{self._rng.random.randint(1, 99)}"
        body = body | {"project": project.slug, "name": name, "priority": priority}
        return Job(
            uid=self._rng.uuid(),
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
        if key not in self._parsed:
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
            self._parsed[key] = request_as_dict(parse_request(body, RequestLimits()))
        return self._parsed[key]


def _seconds(limit: str) -> int:
    return int(limit[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[limit[-1]]
