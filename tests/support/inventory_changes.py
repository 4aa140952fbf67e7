"""Changes of an inventory, as any program could write them: some change what could run, some not.

Each takes the nodes `n1` and `n2` of two GPUs each, and writes without any service.
"""

from collections.abc import Callable

from django.db import connection
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.documents import ObservedProfile
from portal.inventory.models import Gpu, Node

PROFILE = ObservedProfile("1g.40gb", 19, 0, 1, 1, 40_000, 20, 7, (0, 1, 2, 3, 4, 5, 6))

Change = Callable[[Node, Node], object]


def _by_hand(first: Node, second: Node) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE inventory_node SET cpu_milli = 1000 WHERE name = %s", [first.name])


COUNTED: dict[str, Change] = {
    "a column set by hand": _by_hand,
    "memory": lambda first, second: Node.objects.filter(pk=first.pk).update(memory_mib=1_024),
    "disk": lambda first, second: Node.objects.filter(pk=first.pk).update(disk_mib=10_240),
    "network": lambda first, second: Node.objects.filter(pk=first.pk).update(fabric="other"),
    "MPS clients": lambda first, second: Node.objects.filter(pk=first.pk).update(
        facts=first.facts | {"share_clients": 0}
    ),
    "labels": lambda first, second: Node.objects.filter(pk=first.pk).update(labels=["nvme"]),
    "taints of all": lambda first, second: Node.objects.update(taints=["dedicated=course"]),
    "retired": lambda first, second: Node.objects.filter(pk=first.pk).update(status="retired"),
    "a new node": lambda first, second: Node.objects.create(
        name="n3", cpu_milli=1_000, memory_mib=4_096
    ),
    "a new GPU": lambda first, second: Gpu.objects.create(
        node=first, uuid="GPU-new", index=9, board="B200-180GB", product_name="B200", memory_mib=1
    ),
    "a GPU moved": lambda first, second: first.gpus.filter(index=0).update(node=second),
    "a GPU taken out": lambda first, second: first.gpus.filter(index=0).delete(),
    "another board": lambda first, second: first.gpus.update(board="A100-80GB"),
    "another memory": lambda first, second: first.gpus.update(memory_mib=81_920),
    "a board without a table": lambda first, second: first.gpus.update(
        board="Moon 1", product_name="Moon 1", memory_mib=1_024
    ),
    "profiles of a board without a table": lambda first, second: first.gpus.update(
        board="Moon 1", product_name="Moon 1", memory_mib=320_000, profiles=[encode(PROFILE)]
    ),
}

UNCOUNTED: dict[str, Change] = {
    "contact": lambda first, second: Node.objects.update(last_seen_at=timezone.now()),
    "lost": lambda first, second: Node.objects.filter(pk=first.pk).update(status="lost"),
    "cordoned": lambda first, second: Node.objects.filter(pk=first.pk).update(schedulable=False),
    "the same report": lambda first, second: first.save(),
    "less disk is free": lambda first, second: Node.objects.filter(pk=first.pk).update(
        facts=first.facts | {"disk_free_mib": 7}
    ),
    "a faulted GPU": lambda first, second: first.gpus.update(health="faulted"),
    "partitioned": lambda first, second: first.gpus.update(desired_mode="mig"),
}
