"""What is expected between two nodes, from what they report and what admins have said."""

from collections import Counter
from collections.abc import Mapping, Sequence
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
    return _line_rate((first, second))


def line_rate_of(nodes: Sequence[Node], *, gpus: Mapping[object, int]) -> Expectation:
    """For a gang that has some of the GPUs of these nodes: its part of the line rate. `gpus`: as
    for `expected_between`. One query."""
    whole = _line_rate(nodes)
    return Expectation(int(whole.mb_per_second * _least_part(nodes, gpus)), whole.source)


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
    return Expectation(int(whole.mb_per_second * _least_part(both, gpus)), whole.source)


def _line_rate(nodes: Sequence[Node]) -> Expectation:
    """Of the slowest of two nodes or more."""
    if is_simulated(*nodes):
        return Expectation()
    first, *others = (node_link(node.topology, node.facts) for node in nodes)
    found = [expectation_of(first, other) for other in others]
    return min(found, key=lambda expectation: expectation.mb_per_second)


def _least_part(nodes: Sequence[Node], gpus: Mapping[object, int]) -> Fraction:
    """Of the GPUs in service of each node."""
    rows = Gpu.objects.in_service().filter(node__in=nodes).values_list("node_id", flat=True)
    there = Counter(rows)
    parts = (Fraction(gpus.get(node.pk, 0), max(1, there[node.pk])) for node in nodes)
    return min(Fraction(1), *parts)
