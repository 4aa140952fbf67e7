"""On PostgreSQL two nodes may report each other's GPUs at the same moment, without a deadlock."""

import threading
from dataclasses import replace

import pytest
from django.db import connection

from portal.agentapi.node_report import node_report
from portal.inventory.models import DisputedClaim, Gpu
from tests.support.rows import HonestNode, a_node

pytestmark = pytest.mark.services

GPUS, ROUNDS = 4, 12


def test_two_nodes_that_claim_each_others_gpus_do_not_deadlock(postgres_django):
    """Each holds its own GPUs and wants those of the other. Both also report the same new ones, in
    opposite order."""
    rows = [a_node("one", gpus=GPUS).row, a_node("two", gpus=GPUS).row]
    start, errors = threading.Barrier(2, timeout=300), list[Exception]()

    def report(own: int) -> None:
        mine, others = (HonestNode(rows[n], gpus=GPUS).observed() for n in (own, 1 - own))
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET deadlock_timeout = '10ms'")
            for number in range(ROUNDS):
                new = [replace(mine.gpus[0], uuid=f"GPU-new-{number}-{n}") for n in range(2)]
                if own:
                    new.reverse()
                gpus = (*mine.gpus, *others.gpus, *new)
                gpus = tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))
                start.wait()
                try:
                    node_report(rows[own].pk, replace(mine, gpus=gpus))
                except Exception as error:
                    errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=report, args=(own,)) for own in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert Gpu.objects.count() == 2 * GPUS + 2 * ROUNDS
    # Each new one has the node that was first; the other one claims it.
    assert not Gpu.objects.exclude(node__in=rows).exists()
    held = {node.pk: Gpu.objects.filter(node=node).count() for node in rows}
    claims = {node.pk: DisputedClaim.objects.filter(claimant=node).count() for node in rows}
    assert all(held[node.pk] + claims[node.pk] == 2 * GPUS + 2 * ROUNDS for node in rows)
