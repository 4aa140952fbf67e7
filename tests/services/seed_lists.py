"""Seeds what the Jobs and the Queue page show: run as a program, prints everybody's password.

alice is a member of vision and reads the empty speech; ada is the admin of vision, root a platform
admin; eve has a project of her own.
Two GPUs are taken; the rest waits for them, one is held and one awaits approval.
"""

import json
import os
import secrets
import sys
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.utils import timezone  # noqa: E402

from portal.accounts.models import Membership, Role, User  # noqa: E402
from portal.jobs.holds import job_hold  # noqa: E402
from portal.jobs.models import Job  # noqa: E402
from portal.live.bell import answer_plan, is_plan_rung  # noqa: E402
from portal.quotas.policy import policy_set  # noqa: E402
from scheduler.tasks import plan_once  # noqa: E402
from tests.support.rows import a_job, a_node, a_project, settle  # noqa: E402

GPU = {"gpus": 1}
MAX_PASSES = 50


def main(more: int) -> None:
    password = secrets.token_urlsafe(12)
    alice, ada, eve = (_user(name, password) for name in ("alice", "ada", "eve"))
    _user("root", password, is_superuser=True)
    vision = a_project("vision", alice)
    Membership.objects.create(project=vision, user=ada, role=Role.ADMIN)
    vision.approval_seconds = 86_400
    vision.save()
    Membership.objects.create(project=a_project("speech"), user=alice, role=Role.VIEWER)
    secret = a_project("secret", eve)
    policy_set(actor="root", order="fifo")
    node = a_node("gpu-01", gpus=2)
    for owner, home, name in ((alice, vision, "train-vit"), (eve, secret, "zebra-run")):
        a_job(owner, home, name=name, device=GPU)
        settle(node, rounds=3)
    held = a_job(ada, vision, name="ada-late", device=GPU)
    a_job(eve, secret, name="zebra", device={"mig": "2g.35gb"}, time_limit="2h")
    for number in range(3 + more):
        a_job(alice, vision, name=f"sweep-{number}", device=GPU, time_limit="4h")
    a_job(alice, vision, name="long-run", device=GPU, time_limit="72h")
    job_hold(job=held, actor=ada, reason="data is not there yet")
    _plan()
    _estimate()
    print(json.dumps({"password": password}))


def _plan() -> None:
    """As its task does: a pass that had not enough time rings the next one, and one that is rung
    again leaves the reasons to it."""
    for _ in range(MAX_PASSES):
        answer_plan()
        plan_once()
        if not is_plan_rung():
            return
    raise RuntimeError("each pass rings another one")


def _user(name: str, password: str, **columns: bool) -> User:
    return User.objects.create_user(name, password=password, **columns)


def _estimate() -> None:
    """As the worker writes it; it does not run here."""
    now = int(timezone.now().timestamp())
    for place, job in enumerate(Job.objects.filter(name__contains="sweep").order_by("pk")):
        job.estimate = {
            "optimistic": now + 1_200 * (place + 1),
            "expected": now + 2_000 * (place + 1),
            "pessimistic": now + 4_200 * (place + 1),
            "basis": "120 earlier runs",
        }
        if not place:
            job.reserved_at = timezone.now() + timedelta(hours=1)
        job.save(update_fields=["estimate", "reserved_at"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
