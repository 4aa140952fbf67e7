"""The example job as alice sees it: submitted, followed and read over REST only."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import httpx

from portal.demo.processes import ROOT, ChildProcesses, DemoFailed
from portal.demo.runtime_choice import IMAGE
from portal.demo.terminal import Screen
from scheduler.core.model.states import JOB_FINAL, JobStatus, SliceStatus

PROGRAM = ROOT / "docs" / "examples" / "distributed_sum.py"
REPLICAS = 2
# Its time limit is 10 minutes; before that it waits for its slices.
JOB_SECONDS = 900
LOG_SECONDS = 15
FINAL = {str(status) for status in JOB_FINAL}


@dataclass(frozen=True)
class ExampleResult:
    """What `DEMO_EXIT=1` prints as its last line."""

    job: str
    state: str
    submit_to_running_s: float | None
    replicas: int
    # Every rank logged that it computed the right sum.
    allreduce_ok: bool
    gpu_hours: float

    @property
    def is_good(self) -> bool:
        return self.state == JobStatus.SUCCEEDED and self.allreduce_ok

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def request_body(runtime: str) -> dict[str, Any]:
    """Two replicas on 2g.35gb slices that add up a vector over TCP."""
    in_image = ["python3", f"/examples/{PROGRAM.name}"]
    return {
        "project": "vision",
        "name": "distributed-sum",
        "image": IMAGE,
        "command": in_image if runtime == "docker" else [sys.executable, str(PROGRAM)],
        "replicas": REPLICAS,
        "device": {"mig": "2g.35gb"},
        "topology": "any",
        "time_limit": "10m",
    }


class AliceClient:
    """A client of REST v1 with alice's token."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=120)

    def close(self) -> None:
        self._client.close()

    def is_up(self) -> bool:
        """Whether web and database are up."""
        try:
            return self._client.get("/projects").is_success
        except httpx.TransportError:
            return False

    def is_in_use(self, node: str) -> bool:
        """Whether the node is online and has reported its GPUs. A busy web process may be late."""
        try:
            nodes, gpus = self._get("/nodes")["results"], self._get("/gpus")["results"]
        except httpx.TransportError:
            return False
        is_online = any(n["name"] == node and n["status"] == "online" for n in nodes)
        return is_online and any(gpu["node"] == node for gpu in gpus)

    def submit(self, body: dict[str, Any]) -> str:
        return str(_require_success(self._client.post("/jobs", json=body)).json()["id"])

    def job(self, job: str) -> dict[str, Any]:
        return self._get(f"/jobs/{job}")

    def is_carving(self, job: str) -> bool:
        """Whether a slice of the job is still being carved."""
        for row in self._get("/slices")["results"]:
            if (row["holder"] or {}).get("job") == job and row["status"] != SliceStatus.READY:
                return True
        return False

    def log(self, job: str, rank: int) -> str:
        return _require_success(self._client.get(f"/jobs/{job}/logs", params={"rank": rank})).text

    def _get(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = _require_success(self._client.get(path)).json()
        return body


def follow_job(
    alice: AliceClient, job: str, children: ChildProcesses, screen: Screen
) -> ExampleResult:
    """Show each phase until the job has ended; then read the results from the ranks' logs."""

    def ended() -> dict[str, Any] | None:
        row = alice.job(job)
        if row["status"] in FINAL:
            return row
        screen.phase(_phase(alice, row), (row["reason"] or {}).get("sentence", ""))
        return None

    row = children.wait_until(ended, what=f"{job} to end", seconds=JOB_SECONDS)
    screen.finish()
    good = row["status"] == JobStatus.SUCCEEDED and _all_ranks_agree(alice, job, children)
    return ExampleResult(
        job=job,
        state=row["status"],
        submit_to_running_s=_seconds(row["submitted_at"], row["started_at"]),
        replicas=row["replicas"],
        allreduce_ok=good,
        gpu_hours=float(row["gpu_hours"]),
    )


def _phase(alice: AliceClient, row: dict[str, Any]) -> str:
    status = row["status"]
    if status in (JobStatus.PLACED, JobStatus.PREPARING):
        return "carving" if alice.is_carving(row["id"]) else "preparing"
    return str(status)


def _all_ranks_agree(alice: AliceClient, job: str, children: ChildProcesses) -> bool:
    """Whether every rank reports success. A log may be complete only a moment after the end."""

    def reports_success(rank: int) -> Callable[[], bool]:
        return lambda: _has_success_line(alice.log(job, rank))

    try:
        for rank in range(REPLICAS):
            children.wait_until(
                reports_success(rank), what=f"rank {rank}'s result", seconds=LOG_SECONDS
            )
    except DemoFailed:
        return False
    return True


def _has_success_line(log: str) -> bool:
    for line in log.splitlines():
        if line.startswith("{"):
            try:
                report = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(report, dict) and report.get("allreduce_ok") is True:
                return True
    return False


def _seconds(start: str, end: str | None) -> float | None:
    if end is None:
        return None
    elapsed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return round(elapsed.total_seconds(), 3)


def _require_success(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise DemoFailed(f"{answer.request.url.path} answered {answer.status_code}: {answer.text}")
    return answer
