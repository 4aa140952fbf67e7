"""A replica as bare rows, without planning or a node that runs it."""

from django.utils import timezone

from portal.accounts.models import Project, User
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Job, Replica


def a_replica(node: Node) -> Replica:
    number = Job.objects.count() + 1
    job = Job.objects.create(
        project=Project.objects.create(slug=f"p{number}", name="p"),
        owner=User.objects.create_user(f"u{number}"),
        name="j",
        kind="batch",
        image="i",
        request={},
        replica_count=1,
        cpu_milli=1000,
        memory_mib=1024,
        time_limit_seconds=60,
    )
    attempt = Attempt.objects.create(job=job, number=1, created_at=timezone.now())
    return Replica.objects.create(attempt=attempt, rank=0, node=node)
