"""A cluster as rows, one user's burst on it, and one job of another user: run as a program.

    python -m tests.services.burst seed NODES JOBS     # alice's jobs, all queued at once
    python -m tests.services.burst nodes NODES         # a cluster alone
    python -m tests.services.burst submit              # bob's job; prints its id
    python -m tests.services.burst counts BOB          # alice's jobs placed, bob's status

No agents stand behind the nodes: their last contact lies in the future, so that the sweep leaves
them alone, and a placed job stays placed.
"""

import json
import os
import sys
from datetime import timedelta
from uuid import uuid4

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.utils import timezone  # noqa: E402

from agents.contract.boards import known_boards  # noqa: E402
from agents.contract.codec import encode  # noqa: E402
from agents.contract.documents import GpuMode, NodeFacts  # noqa: E402
from portal.accounts.models import Project, User  # noqa: E402
from portal.inventory.models import Gpu, Node  # noqa: E402
from portal.jobs.models import Job  # noqa: E402
from scheduler.core.model.states import JobStatus, NodeStatus  # noqa: E402
from tests.support.many_jobs import many_jobs  # noqa: E402
from tests.support.rows import a_job, a_project, a_user  # noqa: E402

GPUS_PER_NODE = 16
BOARD = known_boards()["H200-141GB"]


def seed(nodes: int, jobs: int) -> dict[str, int]:
    alice, bob = a_user("alice"), a_user("bob")
    project = a_project("vision", alice, bob, gpus=nodes * GPUS_PER_NODE + 1)
    like = a_job(alice, project, device={"gpus": 1}, cpu="100m", memory="128MiB")
    many_jobs(like, jobs - 1, reason=None)
    return {"queued": Job.objects.queued().count(), **add_nodes(nodes)}


def add_nodes(count: int) -> dict[str, int]:
    now = timezone.now()
    rows = [_node(number, now + timedelta(hours=1)) for number in range(count)]
    Node.objects.bulk_create(rows)
    Gpu.objects.bulk_create([_gpu(node, index) for node in rows for index in range(GPUS_PER_NODE)])
    return {"gpus": Gpu.objects.count()}


def _node(number: int, last_contact: object) -> Node:
    facts = NodeFacts(cpu_milli=64_000, memory_mib=512 * 1_024, simulated=True)
    return Node(
        name=f"n{number:03}",
        status=NodeStatus.ONLINE,
        last_seen_at=last_contact,
        lease_until=last_contact,
        boot_id="boot",
        facts=encode(facts),
        cpu_milli=facts.cpu_milli,
        memory_mib=facts.memory_mib,
        disk_mib=1_024 * 1_024,
        epoch=1,
    )


def _gpu(node: Node, index: int) -> Gpu:
    return Gpu(
        node=node,
        uuid=f"GPU-{uuid4()}",
        index=index,
        board=BOARD.key,
        product_name=BOARD.product_names[0],
        memory_mib=BOARD.memory_mib,
        desired_mode=GpuMode.WHOLE,
        observed_mode=GpuMode.WHOLE,
    )


def submit() -> int:
    """As the REST call does it: the job is written, then planning is rung."""
    bob, project = User.objects.get(username="bob"), Project.objects.get()
    return a_job(bob, project, device={"gpus": 1}, cpu="100m", memory="128MiB").pk


def counts(bob: int) -> dict[str, object]:
    placed = Job.objects.filter(owner__username="alice").exclude(status=JobStatus.QUEUED)
    return {"alice": placed.count(), "bob": Job.objects.get(pk=bob).status}


def main(command: str, *arguments: str) -> None:
    answer = {"seed": seed, "nodes": add_nodes, "submit": submit, "counts": counts}[command]
    print(json.dumps(answer(*(int(each) for each in arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
