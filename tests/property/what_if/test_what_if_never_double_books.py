"""Whatever jobs come, a replay gives no device twice and loses nobody. Counted here, by hand."""

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from agents.contract.documents import SliceKind
from scheduler.core.model.policy import BackfillMode, PreemptionMode
from scheduler.core.model.snapshot import Priority
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.legality import reserve_if_legal
from scheduler.virtual.simulation import SimulationObserver
from tests.support.examples import examples
from tests.support.snapshots import a_gpu, a_node, a_quota
from tests.unit.what_if.scenarios import SINCE, a_recorded, a_scenario, a_window, an_owner, played

DEVICES = [
    {"mig": "1g.18gb"},
    {"mig": "3g.71gb"},
    {"mig": "7g.141gb"},
    {"gpus": 1},
    {"gpus": 2},
    {"gpus": 1, "replicas": 2, "topology": "any"},
    {"mps": (30, 30_000)},
    {"device_mib": 30_000},
]
LIMIT = 2 * 56_000


@st.composite
def recorded_jobs(draw):
    number = draw(st.integers(1, 14))
    return [_job(draw, key) for key in range(number)]


def _job(draw, key):
    at, ran = draw(st.integers(0, 5_000)), draw(st.integers(0, 4_000))
    gone = draw(st.sampled_from([0, 0, 0, 0, 1_500]))
    return a_recorded(
        key,
        ran,
        at=at,
        **draw(st.sampled_from(DEVICES)),
        project=draw(st.sampled_from("pq")),
        user=draw(st.sampled_from("uv")),
        priority=draw(st.sampled_from(list(Priority))),
        preemptible=draw(st.booleans()),
        cpu_milli=draw(st.sampled_from([1_000, 30_000])),
        after=(str(key - 1),) if key and draw(st.integers(0, 9)) == 0 else (),
        withdrawn_at=SINCE + at + gone if gone else 0,
        was_running=draw(st.integers(0, 9)) == 0,
        time_limit_seconds=4_000,
    )


class Auditor(SimulationObserver):
    """Counts what is held at every pass, and asks `fits` about every placement."""

    def __init__(self, quotas):
        self.limits = {q.project: q.limit_units for q in quotas if not q.user}
        self.passes = 0

    def on_pass(self, snapshot, found):
        self.passes += 1
        self._count(snapshot)
        ledger, jobs = Ledger(snapshot), {job.id: job for job in snapshot.jobs}
        if not found.preemptions:
            # Who stops leaves first: then the places stand beside one another.
            for place in found.placements:
                assert reserve_if_legal(place, jobs[place.job], ledger) is None

    def _count(self, snapshot):
        by_gpu, hosts, units = defaultdict(list), defaultdict(Counter), Counter()
        for run in snapshot.running:
            assert len(run.replicas) == run.job.replicas
            for replica in run.replicas:
                hosts[replica.node].update(cpu=run.job.cpu_milli, memory=run.job.memory_mib)
                for device in replica.devices:
                    by_gpu[device.gpu].append((run.job, device))
                    units[run.job.project] += device.units
        for held in by_gpu.values():
            _require_room(held)
        for node in snapshot.nodes:
            for gpu in node.gpus:
                assert len({each.kind for each in gpu.slices}) <= 1, "idle slices count as well"
            assert node.cpu_total_milli - node.cpu_free_milli == hosts[node.id]["cpu"]
            assert node.cpu_free_milli >= 0 <= node.memory_free_mib
            assert node.memory_total_mib - node.memory_free_mib == hosts[node.id]["memory"]
            kept = {s.id for gpu in node.gpus for s in gpu.slices if s.allocated}
            mine = {d.slice for gpu in node.gpus for _, d in by_gpu[gpu.id]}
            assert kept == mine
        for project, limit in self.limits.items():
            assert units[project] <= limit
            told = next(q for q in snapshot.quotas if q.project == project and not q.user)
            assert told.used_units == units[project]


def _require_room(held):
    kinds = {device.kind for _, device in held}
    assert len(kinds) == 1, "a GPU is in one mode at a time"
    assert len({device.slice for _, device in held}) == len(held)
    if kinds == {SliceKind.GPU}:
        assert len(held) == 1
    elif kinds == {SliceKind.MPS}:
        assert sum(device.threads for _, device in held) <= 100
        assert len({job.project for job, _ in held}) == 1
    else:
        taken = [n for _, d in held for n in range(d.start, d.start + d.size)]
        assert len(taken) == len(set(taken))


@given(
    recorded_jobs(),
    st.sampled_from(list(BackfillMode)),
    st.sampled_from(list(PreemptionMode)),
    st.booleans(),
)
@examples(40)
def test_no_device_is_given_twice_and_every_job_is_told(jobs, backfill, preemption, fair):
    quotas = [a_quota("p", gpus=2)]
    scenario = a_scenario(
        a_node(a_gpu(), a_gpu()),
        a_node(a_gpu(), name="n2"),
        quotas=quotas,
        owners=[an_owner("p"), an_owner("q")] if fair else [],
        dwell_seconds=300,
        backfill=backfill,
        preemption=preemption,
        protection_seconds=600,
    )
    auditor = Auditor(quotas)
    simulation = played(scenario, a_window(*jobs), auditor)
    assert auditor.passes == simulation.passes
    waiting = {job.id for job in simulation.snapshot(SINCE + 10**7).jobs}
    assert not simulation.snapshot(SINCE + 10**7).running
    for key, outcome in simulation.outcomes.items():
        over = outcome.ended_at > 0
        assert over != (key in waiting), "a job is done with, or it still waits"
        if over and not (outcome.refused or outcome.withdrawn):
            assert (
                outcome.done_seconds == outcome.recorded.ran_seconds
                and outcome.remaining_seconds == 0
            )
    # Nobody is left who could start on an empty cluster and waits for nobody.
    assert all(simulation.outcomes[key].recorded.job.after for key in waiting)
