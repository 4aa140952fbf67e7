"""One availability: what is counted as free is the planner's own answer, on every face.

For each kind of device the planner gets one job more than is counted, and starts as many as are
counted: at once what is ready or can be carved, within seconds what needs idle slices deleted.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from portal.availability import published
from portal.inventory.models import Node
from portal.jobs.services import job_cancel
from portal.planning.planner_input import planner_input
from scheduler.core.availability.cluster import cluster_availability
from scheduler.core.availability.counts import MPS_SHARE, WHOLE_GPU, Category, DeviceKind
from scheduler.core.availability.document import availability_as_json, availability_from_json
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority
from scheduler.core.plan import plan
from scheduler.core.queue_trial import QueueTrial
from scheduler.tasks import plan_once
from tests.property.core.worlds import worlds
from tests.support.examples import examples, first_quick
from tests.support.own_faces import face_reader
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.snapshots import a_cluster
from tests.support.snapshots import a_job as a_waiting_job

FIRST_WORLDS, QUEUED_WORLDS = 700, 300


def probes(kind: DeviceKind, board: str, count: int) -> list:
    """Jobs that ask for one device and next to nothing else, and end before any reservation."""
    device = {"mps": (100, 1)} if kind == MPS_SHARE else {}
    device |= {"gpus": 1} if kind == WHOLE_GPU else {}
    device |= {"mig": kind.profile} if kind.kind is SliceKind.MIG else {}
    return [
        a_waiting_job(
            f"probe-{number:03}",
            **device,
            models=(board,),
            project="probe",
            user="probe",
            priority=Priority.LOW,
            cpu_milli=1,
            memory_mib=1,
            tolerates=("beta",),
            time_limit_seconds=1,
        )
        for number in range(count)
    ]


def started(snapshot, policy, jobs) -> tuple[int, int]:
    """How many of these jobs start at once, and how many within seconds."""
    keys = {job.id for job in jobs}
    longer = replace(snapshot, jobs=(*snapshot.jobs, *jobs))
    found = plan(longer, policy, RuntimeModel.from_snapshot(snapshot))
    soon = [d for d in found.deferrals if d.reason.code is ReasonCode.REPARTITION]
    return sum(p.job in keys for p in found.placements), sum(d.job in keys for d in soon)


def is_published_as_it_is(counted) -> None:
    """A web process reads of it what was counted."""
    document = availability_as_json(counted)
    read = availability_from_json(document, counted.board_table.get)
    assert replace(read, may_lag=counted.may_lag) == counted


def adds_up(counted) -> None:
    for part in (
        counted.total,
        *counted.boards.values(),
        *(n.total for n in counted.nodes.values()),
    ):
        assert sum(part.units.values()) == part.gpus * UNITS_PER_GPU
        assert part.in_service + part.out_of_service + part.on_unavailable_nodes == part.gpus
        open_units = part.units[Category.FREE] + part.units[Category.RECARVABLE]
        assert (open_units > 0) == part.has_room
    assert sum((n.total.units for n in counted.nodes.values()), Counter()) == counted.total.units


def is_the_planners_answer(snapshot, counted, policy, draw) -> None:
    for board, part in counted.boards.items():
        kinds = sorted(part.devices)
        for kind in {draw(st.sampled_from(kinds)), WHOLE_GPU} if kinds else ():
            count = part.of(kind)
            at_once, soon = started(snapshot, policy, probes(kind, board, count.available + 1))
            assert (at_once, soon) == (count.ready + count.carvable, count.recarvable), (
                board,
                kind,
            )


@pytest.mark.slow
@examples(FIRST_WORLDS)
@given(world=worlds(with_quotas=False), data=st.data())
def test_without_a_queue_as_many_of_each_kind_start_as_are_counted(world, data):
    world = a_cluster(*world.nodes)
    counted = cluster_availability(world)
    adds_up(counted)
    is_published_as_it_is(counted)
    is_the_planners_answer(world, counted, Policy(), data.draw)


@pytest.mark.slow
@examples(QUEUED_WORLDS)
@given(world=worlds(), data=st.data())
def test_behind_a_queue_as_many_of_each_kind_start_as_are_counted(world, data):
    # Before the probes, as those who submitted before are.
    world = replace(world, jobs=tuple(replace(j, priority=Priority.HIGH) for j in world.jobs))
    policy = Policy()
    trial = QueueTrial(world, policy, RuntimeModel.from_snapshot(world))
    counted = cluster_availability(world, trial.places, trial.plan.merges)
    adds_up(counted)
    is_published_as_it_is(counted)
    is_the_planners_answer(world, counted, policy, data.draw)


def shuffle_devices(random: Random, olga, team) -> None:
    """Nodes with jobs of all kinds, of which some have ended, and some trouble."""
    nodes = [
        a_node(f"n{i}", gpus=random.choice([1, 2, 3])) for i in range(random.choice([1, 2, 3]))
    ]
    devices = [{"mig": "1g.18gb"}, {"mig": "2g.35gb"}, {"mig": "3g.71gb"}, {"gpus": 1}]
    devices += [{"mps": {"threads": 25, "memory": "8GiB"}}]
    jobs = [a_job(olga, team, device=random.choice(devices)) for _ in range(random.randint(1, 7))]
    settle(*nodes)
    for job in random.sample(jobs, len(jobs) // 2):
        job_cancel(job=job, actor="olga")
    settle(*nodes)
    node = random.choice(nodes)
    match random.choice(["busy", "fault", "block", "cordon", "queue", "nothing"]):
        case "busy":
            node.busy = {0: "python of somebody"}
        case "fault":
            node.faults = {0: "XID 79"}
        case "block":
            node.blocks = ("no driver",)
        case "cordon":
            Node.objects.filter(pk=node.row.pk).update(schedulable=False)
        case "queue":
            # Jobs that the next pass places: their devices are reserved.
            for _ in range(2):
                a_job(olga, team, device=random.choice(devices))
    node.report()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_published", [False, True], ids=["counted here", "published"])
@pytest.mark.parametrize("seed", first_quick(*range(12)))
def test_every_face_shows_the_count_of_the_planner(seed, is_published, tmp_path, monkeypatch):
    olga = a_user("olga")
    shuffle_devices(Random(seed), olga, a_project("vision", olga, gpus=20))
    snapshot = planner_input(now=timezone.now(), policy=Policy())
    if is_published:
        monkeypatch.setattr(published, "PUBLISHED_FROM", 1)
        plan_once()  # which publishes what it leaves
    answer = face_reader(olga, tmp_path)()
    trial = QueueTrial(snapshot, Policy(), RuntimeModel.from_snapshot(snapshot))
    counted = cluster_availability(snapshot, trial.places, trial.plan.merges)
    adds_up(counted)
    slice_kind = DeviceKind(SliceKind.MIG, "3g.71gb")
    assert answer["free"] == counted.total.free_gpus
    assert answer["3g.71gb available"] == counted.total.of(slice_kind).available
    for board in counted.boards:
        for kind in (WHOLE_GPU, slice_kind):
            count = counted.total.of(kind)
            jobs = probes(kind, board, count.available + 1)
            assert sum(started(snapshot, Policy(), jobs)) == count.available
