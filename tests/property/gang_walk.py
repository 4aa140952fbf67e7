"""A random walk of gangs: jobs come and are cancelled, have their network checked, ranks fail, do
not come or vanish, nodes are cut off, stop their work at the end of their lease and come back,
reports arrive twice. The portal's rows, passes, sweeps and sync are the real ones; time is virtual,
and so is what checks measure."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random
from unittest import mock

from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from agents.contract.documents import ReplicaState
from agents.contract.gang_network import NodeOverlay
from agents.contract.lease import LeaseEnd
from portal.allocations.models import Allocation
from portal.desired.services import nodes_drive
from portal.gang_networks.models import AttemptNetwork, NetworkBlock
from portal.inventory.models import Node
from portal.jobs.models import Attempt, DesiredState, Job, Replica, StopReason
from portal.jobs.replica_ranges import replica_range
from portal.jobs.services import job_cancel
from portal.quotas.models import Quota
from scheduler import sweeper
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.tasks import plan_once
from tests.property.gang_nodes import FOREVER, WalkedNode
from tests.support.nccl_outputs import a_table, pair_names, pair_tables
from tests.support.node_sessions import session_open
from tests.support.rows import a_job, a_node, a_project, a_user

WAITS = (5, 5, 30, 30, 120, 400, 1_000)
SIZES = (2, 3, {"min": 1, "max": 3}, {"min": 2, "max": 4})
DEVICES = ({"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"mig": "2g.35gb"})
# A walk is at rest after so many rounds without faults, or never.
REST_ROUNDS = 40
FAILED = (StopReason.FAILED, StopReason.LOST)
# The part of the gangs of whole GPUs whose network is checked first.
CHECKED = 0.5


class GangWalk:
    """`violations`: what was wrong, each with the time at which it was seen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.begun = self.now = timezone.now()
        self.violations: list[str] = []
        self.done: Counter[str] = Counter()
        self.was_ready: set[str] = set()
        self.offers: dict[tuple[str, int], tuple[str, int]] = {}

    def run(self, steps: int) -> None:
        with self._virtual_time():
            self._begin()
            ways = {
                self.submit: 2,
                self.plan: 4,
                self.calls: 6,
                self.late_report: 2,
                self.wait: 4,
                self.cancel: 1,
                self.rank_fails: 2,
                self.ranks_end: 1,
                self.container_vanishes: 1,
                self.cut: 2,
                self.come_back: 1,
                self.engine_restarts: 1,
                self.slow: 1,
                self.stuck: 2,
                self.save: 1,
                self.checks_end: 3,
            }
            self._two_gangs()
            for _ in range(steps):
                (way,) = self.random.choices(list(ways), list(ways.values()))
                self.done[way.__name__] += 1
                way()
                self._check()
            self.rest()
            for job in Job.objects.exclude(status__in=sorted(map(str, JOB_FINAL))):
                job_cancel(job=job, actor="alice")
            self.rest()
            self._check_nothing_left()

    @contextmanager
    def _virtual_time(self):
        grows_soon = mock.patch("scheduler.core.pass_growth.GROW_SECONDS", 60)
        measured = mock.patch("portal.preflights.results.log_end", self._measured)
        has_image = replace(settings.PLATFORM, nccl_tests_image="nccl-tests")
        clock = mock.patch("django.utils.timezone.now", lambda: self.now)
        with grows_soon, measured, clock, override_settings(PLATFORM=has_image):
            yield

    def _measured(self, attempt: Attempt, head: Replica) -> str:
        """Some checks are well, some find wrong sums, some end without a table; of pairs, each."""
        texts = (a_table(40), a_table(40), a_table(40, wrong=1), "mpirun: not found")
        names = pair_names(attempt.preflight["command"])
        if names:
            self.done["measured pairs"] += 1
        tables = [(name, texts[(attempt.pk + at) % len(texts)]) for at, name in enumerate(names)]
        return pair_tables(tables) or texts[attempt.pk % len(texts)]

    def _begin(self) -> None:
        self.alice = a_user()
        self.home = a_project("vision", self.alice, gpus=6)
        self.nodes = []
        has_overlay = self.random.random() < 0.5
        for number in range(3):
            plain = a_node(f"n{number}", gpus=2)
            node = WalkedNode(row=plain.row, gpus=2)
            node.on_lease_end = str(self.random.choice(list(LeaseEnd)))
            if has_overlay:
                node.address, node.overlay = f"192.0.2.{number + 1}", NodeOverlay("vxlan", 14_789)
            session_open(node)
            Node.objects.filter(pk=node.row.pk).update(token_expires_at=self.now + FOREVER)
            node.call(self.now)
            self.nodes.append(node)

    def _two_gangs(self) -> None:
        """At any point of their start."""
        for way in (self.submit, self.submit, self.plan, self.calls, self.calls):
            way()
            self._check()

    # What happens.

    def submit(self) -> None:
        gang = {"replicas": self.random.choice(SIZES), "topology": "any"}
        retries = {"infrastructure": self.random.choice((0, 1, 3)), "user": 1}
        if isinstance(gang["replicas"], dict):
            retries["infrastructure"] = max(1, retries["infrastructure"])
        device = self.random.choice(DEVICES)
        if "gpus" in device and self.random.random() < CHECKED:
            gang["preflight"] = "all-reduce"
        a_job(self.alice, self.home, device=device, retries=retries, grace="30s", **gang)

    def plan(self) -> None:
        plan_once()

    def calls(self) -> None:
        """In any order; not each of them."""
        nodes_drive(node_ids=[node.row.pk for node in self.nodes])
        for node in self.random.sample(self.nodes, self.random.randint(1, 3)):
            node.call(self.now)
            self._look(node)

    def late_report(self) -> None:
        self.random.choice(self.nodes).call_late()

    def wait(self) -> None:
        """Whoever is in contact calls before the portal looks who does."""
        self.now += timedelta(seconds=self.random.choice(WAITS))
        self._everybody_calls()
        sweeper.sweep()

    def cancel(self) -> None:
        jobs = list(Job.objects.exclude(status__in=sorted(map(str, JOB_FINAL))))
        if jobs:
            job_cancel(job=self.random.choice(jobs), actor="alice")

    def rank_fails(self) -> None:
        self._one_ends(state=ReplicaState.EXITED, exit_code=self.random.choice((1, 137)))

    def container_vanishes(self) -> None:
        self._one_ends(state=ReplicaState.FAILED, code="vanished", sentence="it is gone")

    def ranks_end(self) -> None:
        """All of a node, with success."""
        node = self.random.choice(self.nodes)
        for key in node.running():
            ended = replace(node.replicas[key], state=ReplicaState.EXITED, exit_code=0)
            node.replicas[key] = ended

    def cut(self) -> None:
        self.random.choice(self.nodes).is_cut = True

    def come_back(self) -> None:
        for node in self.nodes:
            node.is_cut = node.is_slow = node.is_stuck = False

    def engine_restarts(self) -> None:
        self.random.choice(self.nodes).end_all("engine_restarted")

    def slow(self) -> None:
        self.random.choice(self.nodes).is_slow = True

    def stuck(self) -> None:
        self.random.choice(self.nodes).is_stuck = True

    def save(self) -> None:
        """All that run send a checkpoint."""
        running = Attempt.objects.open().filter(job__status=JobStatus.RUNNING)
        running.update(saved_at=self.now)

    def checks_end(self) -> None:
        """All that run, with success: they do not go on for long."""
        for node in self.nodes:
            node.end_checks()

    # What must be true.

    def rest(self) -> None:
        """No fault from now on: after a while every gang runs whole, waits, or has ended."""
        self.come_back()
        before: object = None
        for number in range(REST_ROUNDS):
            self.now += timedelta(seconds=20)
            plan_once()
            self.checks_end()
            self._everybody_calls()
            if number % 3 == 1:
                sweeper.sweep()
            now = self._state()
            if now == before:
                break
            before = now
        else:
            self._wrong("it does not come to rest")
        # Also takes back the networks of what has ended.
        sweeper.sweep()
        self._check_rest()

    def _everybody_calls(self) -> None:
        nodes_drive(node_ids=[node.row.pk for node in self.nodes])
        for node in self.nodes:
            node.time_passes(self.now)
            node.call(self.now)
            self._look(node)

    def _state(self) -> object:
        jobs = list(Job.objects.order_by("pk").values_list("pk", "status"))
        held = list(Allocation.objects.order_by("pk").values_list("pk", "status"))
        # A check that has ended goes on by itself: at the latest when no more of its log may come.
        checks = Attempt.objects.open().filter(preflight__isnull=False, job__status="preparing")
        moving = self.now if checks.exists() else None
        return jobs, held, [node.replicas for node in self.nodes], moving

    def _one_ends(self, **how) -> None:
        ranks = [(node, key) for node in self.nodes for key in node.running()]
        if ranks:
            node, key = self.random.choice(ranks)
            node.replicas[key] = replace(node.replicas[key], **how)

    def _look(self, node: WalkedNode) -> None:
        """What a node has offered and started since."""
        for seen in node.replicas.values():
            if seen.rank == 0 and seen.port:
                self.offers[seen.job, seen.attempt] = (seen.address, seen.port)
            if seen.state in (ReplicaState.READY, ReplicaState.RUNNING):
                self.was_ready.add(seen.id)
        for start in node.started:
            wanted = start.replica
            gang = Replica.objects.filter(attempt=wanted.fence)
            absent = {str(r.pk) for r in gang} - self.was_ready
            if absent:
                self._wrong(f"rank {wanted.rank} of {wanted.job} runs, and not all were ready")
            over = {row.node_id for row in gang}
            offers = [n.overlay for n in self.nodes if n.row.pk in over]
            if len(over) > 1 and all(offers) != (wanted.gang_network is not None):
                self._wrong(f"rank {wanted.rank} of {wanted.job} has the wrong network")
            if start.meeting != self.offers.get((wanted.job, wanted.attempt)):
                self._wrong(f"rank {wanted.rank} of {wanted.job} meets where its rank 0 is not")
        node.started.clear()

    def _check(self) -> None:
        """What holds at any moment."""
        attempts: dict[str, set[int]] = {}
        places: Counter[tuple[str, int]] = Counter()
        for node in self.nodes:
            for key in node.running():
                attempts.setdefault(node.replicas[key].job, set()).add(node.replicas[key].attempt)
            places.update(
                (node.row.name, seen.port) for seen in node.replicas.values() if seen.port
            )
        for job, numbers in attempts.items():
            if len(numbers) > 1:
                self._wrong(f"attempts {numbers} of {job} run at once")
        for place, count in places.items():
            if count > 1:
                self._wrong(f"{count} replicas have {place}")

    def _check_rest(self) -> None:
        self._check()
        running = {key for node in self.nodes for key in node.running()}
        there = {key for node in self.nodes for key in node.replicas}
        for job in Job.objects.all():
            open_ones = Attempt.objects.open().filter(job=job)
            gang = {str(r.pk) for r in Replica.objects.filter(attempt__in=open_ones)}
            at_work = gang & running
            if job.status == JobStatus.RUNNING and not at_work:
                self._wrong(f"{job} is running without a rank")
            if at_work and at_work != gang and not self._some_ended_well(job):
                self._wrong(f"{len(at_work)} of {len(gang)} ranks of {job} are left")
            if job.status in (JobStatus.PLACED, JobStatus.PREPARING, JobStatus.STOPPING):
                self._wrong(f"{job} stays {job.status}")
        wanted = Replica.objects.filter(attempt__in=Attempt.objects.open())
        left = there - {str(r.pk) for r in wanted.exclude(desired_state=DesiredState.GONE)}
        if left:
            self._wrong(f"{len(left)} containers of ended attempts are left")
        live = Allocation.objects.live()
        taken = Counter(live.values_list("slice", flat=True))
        if any(count > 1 for count in taken.values()):
            self._wrong("a device is taken twice")
        if live.exclude(replica__attempt__in=Attempt.objects.open()).exists():
            self._wrong("devices of an ended attempt are still taken")
        ended = AttemptNetwork.objects.exclude(attempt__in=Attempt.objects.open())
        # That of a check stays until the devices, which passed to the next attempt, are free.
        open_ones = Attempt.objects.open().values("job")
        ended = ended.exclude(attempt__preflight__isnull=False, attempt__job__in=open_ones)
        if ended.exists():
            self._wrong("an ended attempt keeps its network, and its nodes have reported")
        for quota in Quota.objects.all():
            held = sum(live.values_list("units", flat=True))
            if quota.used_units != held:
                self._wrong(f"the quota counts {quota.used_units}, and {held} are held")
        for attempt in Attempt.objects.select_related("job"):
            least, most = replica_range(attempt.job.request)
            if not least <= attempt.placed_replicas <= most:
                self._wrong(f"{attempt} has {attempt.placed_replicas} of {least} to {most}")
            if attempt.replicas.count() != attempt.world:
                self._wrong(f"{attempt} has {attempt.replicas.count()} of {attempt.world} ranks")
        for attempt in Attempt.objects.filter(outcome__in=[str(reason) for reason in FAILED]):
            failure = attempt.first_failure or {}
            if failure.get("rank") not in attempt.replicas.values_list("rank", flat=True):
                self._wrong(f"{attempt} failed, and no rank of it is named")

    def _some_ended_well(self, job: Job) -> bool:
        """Ranks may end with success one after the other."""
        gang = Replica.objects.filter(attempt__in=Attempt.objects.open().filter(job=job))
        return not gang.exclude(status="running").exclude(status="exited", exit_code=0).exists()

    def _check_nothing_left(self) -> None:
        for node in self.nodes:
            if node.replicas or node.ports._by_replica:
                self._wrong(f"{node.row.name} keeps {len(node.replicas)} containers or their ports")
        if AttemptNetwork.objects.exists() or NetworkBlock.objects.exists():
            self._wrong("networks are left, and no job is")
        if Allocation.objects.live().exists():
            self._wrong("devices are taken, and no job is left")

    def _wrong(self, sentence: str) -> None:
        seconds = (self.now - self.begun).total_seconds()
        self.violations.append(f"at {seconds:.0f} s: {sentence}")


def gang_walk(*, seed: int, steps: int) -> GangWalk:
    """One walk on an empty database."""
    walk = GangWalk(seed)
    walk.run(steps)
    return walk
