"""Jobs with which platform admins measure the network between two nodes."""

from dataclasses import dataclass

from django.db import IntegrityError, transaction

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from portal.accounts.models import User
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.gang_networks.joining import network_of_node
from portal.inventory.models import Gpu, Node
from portal.live.bell import ring
from portal.node_pairs.expectations import RING_COMMAND, is_simulated, line_rate_between
from portal.node_pairs.judgement import Expectation, ExpectationSource
from portal.node_pairs.models import PairMeasurement
from portal.submission.services import job_submit
from scheduler.core.request import RequestLimits, parse_request

# From where bandwidth counts up to where it no longer grows; each sum is checked.
COMMAND = ("all_reduce_perf", "-b", "8M", "-e", "1G", "-f", "2", "-c", "1")
TIME_LIMIT = "15m"


@dataclass(frozen=True, slots=True)
class PairDevices:
    """What each replica of a measurement gets."""

    gpus: int
    board: str


def pair_measure(
    *,
    user: User,
    nodes: tuple[str, str],
    project: str,
    image: str,
    limits: RequestLimits,
    expected_mb_per_second: int = 0,
) -> PairMeasurement:
    """Submit the job that measures these nodes, as a job of `user` in the project. It waits until
    both are free. For platform admins alone: what it finds counts for everybody.

    `image`: of the settings. `expected_mb_per_second`: 0 to expect what the network cards say.
    Raises Refused(no_test_image, pair_invalid, pair_busy), and what `job_submit` raises.
    """
    if not image:
        sentence = Message("Set TESSERA_NCCL_TESTS_IMAGE to an image with nccl-tests first")
        raise Refused(ErrorCode.NO_TEST_IMAGE, sentence)
    first, second = _nodes(nodes)
    devices = _devices(first, second)
    expected = _expectation(first, second, expected_mb_per_second)
    command = RING_COMMAND if is_simulated(first, second) else COMMAND
    body = {
        "project": project,
        "name": "pair-check",
        "image": image,
        "command": list(command),
        "launcher": str(LauncherName.NCCL_TESTS),
        "replicas": 2,
        "device": {"gpus": devices.gpus, "models": [devices.board]},
        "backend": "nccl",
        # A node that is set aside for its network is measured all the same.
        "tolerates": sorted({*first.taints, *second.taints}),
        "time_limit": TIME_LIMIT,
        "retries": {"infrastructure": 0, "user": 0},
    }
    _require_idle(first, second)
    try:
        with transaction.atomic():
            job = job_submit(user=user, request=parse_request(body, limits))
            row = PairMeasurement.objects.create(
                first=first,
                second=second,
                job=job,
                actor=user.username,
                expected_mb_per_second=expected.mb_per_second,
                expected_source=expected.source,
            )
            audit_record(
                actor=user.username,
                action=AuditAction.PAIR_MEASURE,
                noun="node",
                noun_id=first.name,
                after={"with": second.name, "job": job.label},
            )
            for node in (first, second):
                ring(f"node:{node.pk}")
    except IntegrityError:
        # Another admin was faster.
        _require_idle(first, second)
        raise
    return row


def _nodes(names: tuple[str, str]) -> tuple[Node, Node]:
    """The lower name first. Raises Refused(pair_invalid)."""
    if names[0] == names[1]:
        raise Refused(ErrorCode.PAIR_INVALID, "Choose two different nodes", "nodes")
    found = {node.name: node for node in Node.objects.active().filter(name__in=names)}
    for name in names:
        if name not in found:
            sentence = Message("There is no node %(node)s", node=repr(name[:64]))
            raise Refused(ErrorCode.PAIR_INVALID, sentence, "nodes")
    first, second = (found[name] for name in sorted(names))
    networks = {network_of_node(node.fabric, node.facts.get("overlay")) for node in (first, second)}
    if len(networks) > 1:
        sentence = Message(
            "%(first)s and %(second)s are on networks that do not reach each other",
            first=first.name,
            second=second.name,
        )
        raise Refused(ErrorCode.PAIR_INVALID, sentence, "nodes")
    return first, second


def _devices(first: Node, second: Node) -> PairDevices:
    """So many GPUs that one node alone cannot have both replicas. Raises Refused(pair_invalid)."""
    boards: dict[object, list[str]] = {first.pk: [], second.pk: []}
    gpus = Gpu.objects.in_service().filter(node__in=(first, second))
    for node, board in gpus.values_list("node_id", "board"):
        boards[node].append(board)
    counts = sorted(map(len, boards.values()))
    kinds = {board for each in boards.values() for board in each}
    names = {"first": first.name, "second": second.name}
    if not counts[0]:
        sentence = Message("Not both of %(first)s and %(second)s have a GPU in service", **names)
        raise Refused(ErrorCode.PAIR_INVALID, sentence, "nodes")
    if len(kinds) > 1:
        sentence = Message("%(first)s and %(second)s have different models of GPU", **names)
        raise Refused(ErrorCode.PAIR_INVALID, sentence, "nodes")
    if counts[1] >= 2 * counts[0]:
        sentence = Message(
            "%(first)s and %(second)s have too different numbers of GPUs in service", **names
        )
        raise Refused(ErrorCode.PAIR_INVALID, sentence, "nodes")
    return PairDevices(counts[0], kinds.pop())


def _expectation(first: Node, second: Node, given: int) -> Expectation:
    if given:
        return Expectation(given, ExpectationSource.ADMIN)
    return line_rate_between(first, second)


def _require_idle(first: Node, second: Node) -> None:
    open_one = PairMeasurement.objects.unfinished().filter(first=first, second=second)
    row = open_one.select_related("job").first()
    if row is not None:
        label = row.measuring_job.label
        sentence = Message("%(job)s measures this pair already", job=label)
        raise Refused(ErrorCode.PAIR_BUSY, sentence, "nodes")
