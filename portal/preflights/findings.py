"""What a check of a gang has found between some of its nodes, and what is said of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.contract.message import Message
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Replica
from portal.node_pairs.expectations import expected_between, is_simulated
from portal.node_pairs.judgement import Expectation, PairVerdict, verdict_of
from portal.node_pairs.nccl_output import NcclTestOutput
from portal.node_pairs.services import gigabytes_per_second
from portal.preflights.pair_rounds import ring_neighbours


@dataclass(frozen=True, slots=True)
class NetworkFinding:
    nodes: tuple[Node, ...]
    """By name, each once."""
    output: NcclTestOutput
    expected: Expectation
    verdict: PairVerdict

    @property
    def mb_per_second(self) -> int:
        return round(self.output.best.busbw * 1_000) if self.output.best else 0

    @property
    def has_result(self) -> bool:
        return self.verdict is not PairVerdict.FAILED

    @property
    def names(self) -> str:
        return ", ".join(node.name for node in self.nodes)

    @property
    def message(self) -> Message:
        """For the history of the job."""
        busbw = gigabytes_per_second(self.mb_per_second)
        match self.verdict:
            case PairVerdict.FAILED:
                return Message(
                    "The network check over %(nodes)s gave no result: read the log of its attempt. "
                    "The job starts without it",
                    nodes=self.names,
                )
            case PairVerdict.WRONG:
                return Message("The network check over %(nodes)s had wrong sums", nodes=self.names)
            case PairVerdict.SLOW:
                return Message(
                    "The network check over %(nodes)s reached %(busbw)s of %(expected)s GB/s",
                    nodes=self.names,
                    busbw=busbw,
                    expected=gigabytes_per_second(self.expected.mb_per_second),
                )
        return Message(
            "The network check over %(nodes)s reached %(busbw)s GB/s",
            nodes=self.names,
            busbw=busbw,
        )


def gang_nodes(replicas: Sequence[Replica]) -> tuple[Node, ...]:
    """Each once, by name."""
    wanted = {row.node_id for row in replicas if row.node_id}
    return tuple(Node.objects.filter(pk__in=wanted).order_by("name"))


def gang_gpus(replicas: Sequence[Replica]) -> dict[object, int]:
    """By node, how many GPUs of it took part."""
    gpus = Gpu.objects.filter(slices__allocations__replica__in=[row.pk for row in replicas])
    found: dict[object, int] = {}
    for node in gpus.values_list("node_id", flat=True):
        found[node] = found.get(node, 0) + 1
    return found


def finding_of(
    nodes: tuple[Node, ...], gpus: Mapping[object, int], output: NcclTestOutput
) -> NetworkFinding:
    """Over one node, nothing is expected. A ring is as fast as its slowest pair of neighbours."""
    found = [
        expected_between(*pair, gpus=gpus)
        for pair in (ring_neighbours(nodes) if len(nodes) > 1 else ())
    ]
    expected = min(found, key=lambda one: one.mb_per_second, default=Expectation())
    best = round(output.best.busbw * 1_000) if output.best else 0
    verdict = verdict_of(best, output.wrong_values, expected.mb_per_second)
    if not (output.is_complete or output.wrong_values) or (
        output.is_ring and not is_simulated(*nodes)
    ):
        verdict = PairVerdict.FAILED
    return NetworkFinding(nodes, output, expected, verdict)
