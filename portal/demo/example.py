"""The example job as alice sees it: submitted, followed and read over REST, nothing else."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import httpx

from portal.demo.processes import ROOT, Children, DemoFailed
from portal.demo.runtime_choice import IMAGE
from portal.demo.terminal import Screen
from scheduler.core.model.states import JOB_FINAL, JobStatus, SliceStatus

PROGRAM = ROOT / "docs" / "examples" / "distributed_sum.py"
REPLICAS = 2
JOB_SECONDS = 180
LOG_SECONDS = 15
FINAL = {str(status) for status in JOB_FINAL}


@dataclass(frozen=True)
class Result:
    """What `DEMO_EXIT=1` prints as its last line. `allreduce_ok`: every rank said so in its log."""

    job: str
    state: str
    submit_to_running_s: float | None
    replicas: int
    allreduce_ok: bool
    gpu_hours: float

    @property
    def is_good(self) -> bool:
        return self.state == JobStatus.SUCCEEDED and self.allreduce_ok

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def request_body(runtime: str) -> dict[str, Any]:
    """Two replicas of 2g.35gb that add up a vector over TCP."""
    in_image = ["python3", f"/examples/{PROGRAM.name}"]
    return {
        "project": "vision",
        "name": "distributed-sum",
        "image": IMAGE,
        "command": in_image if runtime == "docker" else [sys.executable, str(PROGRAM)],
        "replicas": REPLICAS,
        "device": {"mig": "2g.35gb"},
        "topology": "any",
        "cpu": "500m",
        "memory": "256MiB",
        "shm": "64MiB",
        "time_limit": "10m",
    }


class Alice:
    """A client of REST v1 with alice's token."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=30)

    def close(self) -> None:
        self._client.close()

    def answers(self) -> bool:
        """Whether web and database are up."""
        try:
            return self._client.get("/projects").is_success
        except httpx.TransportError:
            return False

    def gpus_of(self) -> set[str]:
        """Names of the nodes whose first report is in."""
        return {gpu["node"] for gpu in self._get("/gpus")["results"]}

    def online(self) -> set[str]:
        return {n["name"] for n in self._get("/nodes")["results"] if n["status"] == "online"}

    def submit(self, body: dict[str, Any]) -> str:
        return str(_told(self._client.post("/jobs", json=body)).json()["id"])

    def job(self, job: str) -> dict[str, Any]:
        return self._get(f"/jobs/{job}")

    def is_carving(self, job: str) -> bool:
        """Whether a slice of the job is still being made."""
        for row in self._get("/slices")["results"]:
            if (row["holder"] or {}).get("job") == job and row["status"] != SliceStatus.READY:
                return True
        return False

    def log(self, job: str, rank: int) -> str:
        return _told(self._client.get(f"/jobs/{job}/logs", params={"rank": rank})).text

    def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = _told(self._client.get(path)).json()
        return found


def follow(alice: Alice, job: str, children: Children, screen: Screen) -> Result:
    """Show each phase as it comes, until the job has ended; then read what the ranks said."""

    def ended() -> dict[str, Any] | None:
        seen = alice.job(job)
        if seen["status"] in FINAL:
            return seen
        screen.phase(_phase(alice, seen), (seen["reason"] or {}).get("sentence", ""))
        return None

    seen = children.until(ended, what=f"{job} to end", seconds=JOB_SECONDS)
    screen.finish()
    good = seen["status"] == JobStatus.SUCCEEDED and _all_ranks_agree(alice, job, children)
    return Result(
        job=job,
        state=seen["status"],
        submit_to_running_s=_seconds(seen["submitted_at"], seen["started_at"]),
        replicas=seen["replicas"],
        allreduce_ok=good,
        gpu_hours=float(seen["gpu_hours"]),
    )


def _phase(alice: Alice, seen: dict[str, Any]) -> str:
    status = seen["status"]
    if status in (JobStatus.PLACED, JobStatus.PREPARING):
        return "carving" if alice.is_carving(seen["id"]) else "preparing"
    return str(status)


def _all_ranks_agree(alice: Alice, job: str, children: Children) -> bool:
    """The last bytes of a log may come a moment after the end."""

    def said(rank: int) -> Callable[[], bool]:
        return lambda: _says_ok(alice.log(job, rank))

    try:
        for rank in range(REPLICAS):
            children.until(said(rank), what=f"rank {rank}'s result", seconds=LOG_SECONDS)
    except DemoFailed:
        return False
    return True


def _says_ok(log: str) -> bool:
    for line in log.splitlines():
        if line.startswith("{"):
            try:
                said = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(said, dict) and said.get("allreduce_ok") is True:
                return True
    return False


def _seconds(start: str, end: str | None) -> float | None:
    if end is None:
        return None
    spent = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return round(spent.total_seconds(), 3)


def _told(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise DemoFailed(f"{answer.request.url.path} answered {answer.status_code}: {answer.text}")
    return answer
