"""Seeds what the Job and the Logs page show: run as a program, prints the password and the jobs.

alice is a member of vision, ada its admin; eve has a project of her own. "talks" runs on two
replicas and has a long log with hostile lines, "fell" has failed. Run with `write RANK TEXT` it is
the node: the text arrives at the end of the log of "talks".
"""

import json
import os
import secrets
import sys
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db import transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents.contract.telemetry import GpuSample  # noqa: E402
from portal.accounts.models import Membership, Role, User  # noqa: E402
from portal.inventory.models import Gpu, Node  # noqa: E402
from portal.jobs.models import Replica  # noqa: E402
from portal.live.bell import ring  # noqa: E402
from portal.telemetry.job_samples import samples_record  # noqa: E402
from tests.support.logs import write_log  # noqa: E402
from tests.support.rows import a_job, a_node, a_project, settle  # noqa: E402

LINES = 2_500
HOSTILE = (
    "<img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202etxet\n"
    "\x1b]8;;javascript:alert(1)\x07click me\x1b]8;;\x07\n"
)


def main() -> None:
    password = secrets.token_urlsafe(12)
    alice, ada, eve = (User.objects.create_user(n, password=password) for n in USERS)
    vision = a_project("vision", alice)
    Membership.objects.create(project=vision, user=ada, role=Role.ADMIN)
    a_project("secret", eve)
    node = a_node("gpu-01", gpus=4)
    fell = a_job(alice, vision, name="fell", device={"gpus": 1}, retries={"user": 0})
    settle(node)
    write("fell", 0, "loading\nRuntimeError: CUDA out of memory\n")
    node.finish(exit_code=137)
    settle(node)
    Replica.objects.update(memory_kill=True)
    talks = a_job(alice, vision, name="talks", device={"gpus": 1}, replicas=2, time_limit="6h")
    settle(node)
    steps = (f"step {n}  loss {2 - n / LINES:.4f}  1,9{n % 90:02} img/s" for n in range(1, LINES))
    write("talks", 0, "".join(f"{step}\n" for step in steps))
    write("talks", 0, HOSTILE)
    write("talks", 1, "rank 1 is here\n")
    _measure()
    print(json.dumps({"password": password, "talks": talks.label, "fell": fell.label}))


USERS = ("alice", "ada", "eve")


def write(name: str, rank: int, text: str) -> None:
    """As a node's call does it."""
    data = text.encode()
    with transaction.atomic():
        replica = Replica.objects.get(attempt__job__name=name, rank=rank)
        write_log(replica, replica.log_bytes, data)
        end = replica.log_bytes + len(data)
        Replica.objects.filter(pk=replica.pk).update(log_bytes=end)
        ring(f"job:{replica.attempt.job_id}")


def _measure() -> None:
    """Two hours of samples, with a gap in which the node was silent."""
    node = Node.objects.get()
    for minute in range(120):
        if 50 <= minute < 65:
            continue
        taken_at = timezone.now() - timedelta(minutes=120 - minute)
        samples = {
            gpu.uuid: GpuSample(
                uuid=gpu.uuid,
                utilization_percent=55 + (minute * 7 + gpu.index * 13) % 40,
                memory_used_mib=20_000 + min(minute, 40) * 1_500,
                memory_total_mib=144_384,
                temperature_c=50 + minute % 12,
                power_mw=300_000 + (minute * 37) % 200 * 1_000,
                power_limit_mw=700_000,
            )
            for gpu in Gpu.objects.all()
        }
        samples_record(node, samples, taken_at)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write("talks", int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape"))
        print("written")
    else:
        main()
