"""What other labels and taints of a node would do to the jobs that wait, before they are saved.
Changes nothing. Running work goes on whatever the labels and taints are."""

from collections.abc import Iterable
from dataclasses import dataclass

from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.planning.planner_input import queued_jobs
from scheduler.core.placement.node_eligibility import allows

# This many jobs are named; the others are counted.
MAX_NAMED_JOBS = 20


@dataclass(frozen=True, slots=True)
class NodeSettingsEffect:
    """How many of the waiting jobs the node may run by its labels and taints; whether there is
    room for them is another question."""

    before: int
    after: int
    lost: tuple[Job, ...]
    """The first of those that it may run now and could not afterwards."""
    lost_count: int


def node_settings_effect(
    node: Node, *, labels: Iterable[str], taints: Iterable[str]
) -> NodeSettingsEffect:
    """Two queries."""
    now = (tuple(node.labels), tuple(node.taints))
    then = (tuple(labels), tuple(taints))
    before, after = set(), set()
    wanted = queued_jobs().values_list("pk", "request__needs", "request__tolerates")
    for pk, needs, tolerates in wanted:
        job = {"needs": tuple(needs or ()), "tolerates": tuple(tolerates or ())}
        if allows(*now, **job):
            before.add(pk)
        if allows(*then, **job):
            after.add(pk)
    lost = sorted(before - after)
    named = Job.objects.filter(pk__in=lost[:MAX_NAMED_JOBS]).select_related("owner").order_by("pk")
    return NodeSettingsEffect(len(before), len(after), tuple(named) if lost else (), len(lost))
