"""What is expected between two nodes, from what they report and what admins have said."""

from collections.abc import Mapping
from fractions import Fraction

from agents.launchers.nccl_tests import RING
from portal.inventory.models import Gpu, Node
from portal.node_pairs.judgement import Expectation, ExpectationSource, expectation_of, node_link
from portal.node_pairs.models import PairMeasurement

# What measures where no GPU is real.
RING_COMMAND = (RING, "-b", "1M", "-e", "4M", "-f", "2", "-n", "3")


def is_simulated(*nodes: Node) -> bool:
    """Whether no GPU of these nodes is real, so that programs over TCP stand in for NCCL."""
    return all(node.facts.get("simulated") for node in nodes)


def line_rate_between(first: Node, second: Node) -> Expectation:
    """Of their rails; unknown for simulated nodes, whose rails are none."""
    if is_simulated(first, second):
        return Expectation()
    return expectation_of(*(node_link(node.topology, node.facts) for node in (first, second)))


def expected_between(first: Node, second: Node, *, gpus: Mapping[object, int]) -> Expectation:
    """For a gang that has some of their GPUs: its part of what an admin gave last, or else of the
    line rate. `gpus`: how many of each node, by its key."""
    both = (first, second)
    # Rows of checks name their part of it: a part of that would be less with each check.
    own = PairMeasurement.objects.filter(job__isnull=False, expected_source=ExpectationSource.ADMIN)
    pair = own.filter(first__in=both, second__in=both)
    given = pair.order_by("-id").values_list("expected_mb_per_second", flat=True).first()
    whole = line_rate_between(first, second)
    if given:
        whole = Expectation(given, ExpectationSource.ADMIN)
    part = min(_part(node, gpus.get(node.pk, 0)) for node in both)
    return Expectation(int(whole.mb_per_second * part), whole.source)


def _part(node: Node, taken: int) -> Fraction:
    there = Gpu.objects.in_service().filter(node=node).count()
    return min(Fraction(1), Fraction(taken, max(1, there)))
