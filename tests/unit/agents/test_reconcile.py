"""What a node does about its replicas: only what is wanted, only once, and nobody before the gang.

Everything here is `actions`, a pure function of what is wanted and what the node knows.
"""

from dataclasses import replace

import pytest

from agents.contract.documents import DesiredReplicaState, Rendezvous, SliceKind
from agents.contract.end_causes import EndCause, ExcessCause
from agents.facts.device_keys import device_key
from agents.facts.ends import StopRecord
from agents.facts.failures import ReplicaFailure
from agents.loop.reconcile import (
    FailReplica,
    ForgetReplica,
    LocalState,
    PrepareReplica,
    RemoveReplica,
    StartReplica,
    StopReplica,
    is_mass_removal,
    replica_actions,
)
from agents.runtime.base import ContainerPhase, ContainerStatus
from tests.unit.agents.documents import GPU, a_device, a_replica

PREPARE, RUN, STOP = DesiredReplicaState.PREPARE, DesiredReplicaState.RUN, DesiredReplicaState.STOP
NOTHING = LocalState(
    containers={},
    fences={},
    failures={},
    started=frozenset(),
    recorded=frozenset(),
    shipped=frozenset(),
    devices={device_key(a_device()): "MIG-1"},
    may_remove=True,
)


def a_container(phase, replica="r-1", **fields):
    whole = {"job": "j-1", "attempt": 2, "rank": 1, "fence": 7, "container": "c"}
    return ContainerStatus(
        **whole | {"address": "", "port": 0} | fields, replica=replica, phase=phase
    )


def known(*containers, **facts):
    by_replica = {c.replica: c for c in containers}
    return replace(NOTHING, containers=by_replica, **facts)


def test_a_node_that_is_as_wanted_does_nothing():
    created = a_container(ContainerPhase.CREATED)
    running = a_container(ContainerPhase.RUNNING)
    exited = a_container(ContainerPhase.EXITED, exit_code=0)
    assert replica_actions((), NOTHING) == []
    assert replica_actions((a_replica(wish=PREPARE),), known(created)) == []
    for container in (running, exited):
        assert replica_actions((a_replica(wish=RUN),), known(container, started={"r-1"})) == []
    assert replica_actions((a_replica(wish=STOP),), known(exited, started={"r-1"})) == []


def test_what_is_wanted_and_absent_is_prepared_with_the_drivers_name_of_its_device():
    replica = a_replica(wish=PREPARE)
    assert replica_actions((replica,), NOTHING) == [PrepareReplica(replica, ("MIG-1",))]


def test_nothing_is_prepared_while_one_of_its_devices_is_still_to_be_made():
    replica = a_replica(devices=(a_device(), a_device(start=0)))
    assert replica_actions((replica,), NOTHING) == []


def test_another_profile_at_the_same_place_is_another_device():
    """The old slice still stands while the new one is waited for: it must not be given."""
    replica = a_replica(devices=(a_device(profile="1g.35gb"),))
    assert replica_actions((replica,), NOTHING) == []
    assert replica_actions((replica,), known(a_container(ContainerPhase.CREATED))) == []


def test_a_whole_gpu_is_not_a_slice_of_it():
    whole = a_device(kind=SliceKind.GPU, start=0, size=1, profile="")
    assert device_key(whole) != device_key(replace(whole, kind=SliceKind.MIG))
    replica = a_replica(devices=(whole,))
    assert replica_actions((replica,), known(devices={device_key(whole): GPU})) == [
        PrepareReplica(replica, (GPU,))
    ]


def test_a_replica_without_devices_needs_none():
    replica = a_replica(devices=())
    assert replica_actions((replica,), replace(NOTHING, devices={})) == [
        PrepareReplica(replica, ())
    ]


def test_the_gang_waits_until_run_is_wished_and_the_meeting_is_known():
    created = known(a_container(ContainerPhase.CREATED))
    assert replica_actions((a_replica(wish=PREPARE),), created) == []
    assert replica_actions((a_replica(wish=RUN, rendezvous=None),), created) == []
    ready = a_replica(wish=RUN)
    assert replica_actions((ready,), created) == [StartReplica(ready, ("MIG-1",))]


def test_a_gang_of_one_meets_itself_where_it_offers_to_but_only_when_run_is_wished():
    created = known(a_container(ContainerPhase.CREATED, address="10.0.0.3", port=4_000))
    alone = a_replica(wish=RUN, world=1, rank=0, rendezvous=None)
    (start,) = replica_actions((alone,), created)
    assert isinstance(start, StartReplica)
    assert start.replica.rendezvous == Rendezvous("10.0.0.3", 4_000, ("10.0.0.3",))
    assert replica_actions((replace(alone, wish=PREPARE),), created) == []
    assert replica_actions((alone,), known(a_container(ContainerPhase.CREATED))) == [], (
        "it offers no port"
    )


def test_nothing_starts_without_its_device():
    gone = known(a_container(ContainerPhase.CREATED), devices={})
    assert replica_actions((a_replica(wish=RUN),), gone) == []


def test_run_is_never_wished_so_early_that_preparing_is_skipped():
    replica = a_replica(wish=RUN)
    assert replica_actions((replica,), NOTHING) == [PrepareReplica(replica, ("MIG-1",))]


def test_a_running_replica_is_asked_to_stop_with_its_own_grace():
    replica = a_replica(wish=STOP, grace_seconds=77)
    assert replica_actions((replica,), known(a_container(ContainerPhase.RUNNING))) == [
        StopReplica("r-1", 77)
    ]


@pytest.mark.parametrize("container", [(), (a_container(ContainerPhase.CREATED),)])
def test_a_replica_stopped_before_it_ran_is_told_as_never_started(container):
    (action,) = replica_actions((a_replica(wish=STOP),), known(*container))
    assert isinstance(action, FailReplica)
    assert (action.replica, action.failure.code) == ("r-1", "never_started")


@pytest.mark.parametrize("wish", list(DesiredReplicaState))
@pytest.mark.parametrize("container", [(), (a_container(ContainerPhase.CREATED),)])
def test_an_attempt_that_failed_never_starts_again(wish, container):
    failures = {"r-1": ReplicaFailure("never_started", "stopped before it ran")}
    assert replica_actions((a_replica(wish=wish),), known(*container, failures=failures)) == []


@pytest.mark.parametrize("wish", list(DesiredReplicaState))
def test_an_attempt_that_ended_never_starts_again(wish):
    ended = known(a_container(ContainerPhase.EXITED, exit_code=0), started={"r-1"})
    assert replica_actions((a_replica(wish=wish),), ended) == []


@pytest.mark.parametrize("wish", list(DesiredReplicaState))
def test_an_attempt_whose_container_vanished_is_told_not_made_again(wish):
    (action,) = replica_actions((a_replica(wish=wish),), known(started={"r-1"}))
    assert isinstance(action, FailReplica) and action.failure.code == "vanished"


@pytest.mark.parametrize("wish", list(DesiredReplicaState))
def test_what_was_told_as_failed_does_not_go_on_running(wish):
    failures = {"r-1": ReplicaFailure("runtime", "the engine did not answer in time")}
    running = known(a_container(ContainerPhase.RUNNING), failures=failures)
    assert replica_actions((a_replica(wish=wish, grace_seconds=5),), running) == [
        StopReplica("r-1", 5)
    ]


def test_a_fence_older_than_one_seen_for_the_job_is_refused():
    (action,) = replica_actions((a_replica(fence=6),), known(fences={"j-1": 7}))
    assert isinstance(action, FailReplica) and action.failure.code == "fence_stale"
    assert "6" in action.failure.sentence and "7" in action.failure.sentence
    for fences in ({"j-1": 7}, {"j-2": 9}):
        replica = a_replica(fence=7)
        assert replica_actions((replica,), known(fences=fences)) == [
            PrepareReplica(replica, ("MIG-1",))
        ]


def test_what_the_policy_refuses_is_failed_not_prepared():
    refusal = ReplicaFailure("policy", "image x is not allowed")
    (action,) = replica_actions((a_replica(),), known(refusals={"r-1": refusal}))
    assert action == FailReplica("r-1", refusal)


def test_what_is_no_longer_wanted_is_stopped_then_its_log_shipped_then_removed():
    assert replica_actions((), known(a_container(ContainerPhase.RUNNING))) == [
        StopReplica("r-1", 10)
    ]
    exited = a_container(ContainerPhase.EXITED)
    assert replica_actions((), known(exited)) == []
    assert replica_actions((), known(exited, shipped={"r-1"})) == [RemoveReplica("r-1")]
    assert replica_actions((), known(a_container(ContainerPhase.CREATED))) == [RemoveReplica("r-1")]


def test_a_replica_is_forgotten_only_when_it_is_neither_wanted_nor_there():
    recorded = {"recorded": frozenset({"r-1"}), "started": frozenset({"r-1"})}
    assert replica_actions((), known(**recorded)) == [ForgetReplica("r-1")]
    assert replica_actions((), known(a_container(ContainerPhase.EXITED), **recorded)) == []
    failed = {"r-1": ReplicaFailure("vanished", "gone")}
    assert replica_actions((a_replica(),), known(**recorded, failures=failed)) == []


def test_before_the_portal_has_answered_nothing_is_taken_away():
    early = known(
        a_container(ContainerPhase.RUNNING),
        a_container(ContainerPhase.CREATED, "r-2"),
        a_container(ContainerPhase.EXITED, "r-3"),
        shipped={"r-3"},
        recorded=frozenset({"r-4"}),
        may_remove=False,
    )
    assert replica_actions((), early) == []


def test_after_the_lease_everything_that_runs_is_stopped_and_nothing_begins():
    over = known(
        a_container(ContainerPhase.RUNNING),
        a_container(ContainerPhase.CREATED, "r-2"),
        a_container(ContainerPhase.EXITED, "r-3"),
        is_lease_over=True,
        may_remove=False,
    )
    wanted = tuple(a_replica(id=f"r-{n}", wish=RUN) for n in (1, 2, 3, 4))
    assert replica_actions(wanted, over) == [StopReplica("r-1", 30, EndCause.LEASE_OVER)]


@pytest.mark.parametrize(("grace", "given"), [(3_600, 10), (3, 3)])
def test_what_wrote_more_than_its_disk_is_stopped_soon_also_by_the_next_agent(grace, given):
    running = a_container(ContainerPhase.RUNNING)
    replica = a_replica(wish=RUN, grace_seconds=grace)
    stop = StopReplica("r-1", given, ExcessCause.DISK_FULL)
    assert replica_actions((replica,), known(running, beyond_disk=frozenset({"r-1"}))) == [stop]
    begun = known(running, stops={"r-1": StopRecord("disk_full", 1.0)})
    assert replica_actions((replica,), begun) == [stop]
    ended = known(a_container(ContainerPhase.EXITED), beyond_disk=frozenset({"r-1"}))
    assert replica_actions((replica,), ended) == []


def test_the_order_is_that_of_the_ids_whatever_the_document_says():
    replicas = tuple(a_replica(id=f"r-{n}") for n in (3, 1, 2))
    unwanted = known(
        a_container(ContainerPhase.RUNNING, "r-9"), a_container(ContainerPhase.RUNNING, "r-8")
    )
    found = replica_actions(replicas, unwanted)
    assert [a.replica.id for a in found[:3]] == ["r-1", "r-2", "r-3"]
    assert found[3:] == [StopReplica("r-8", 10), StopReplica("r-9", 10)]
    assert replica_actions(replicas[::-1], unwanted) == found


@pytest.mark.parametrize(
    ("wanted", "running", "went_back", "held"),
    [
        (0, 3, False, True),
        (0, 2, False, False),
        (1, 4, False, False),
        (1, 4, True, True),
        (2, 4, True, False),
        (3, 6, True, False),
        (2, 6, True, True),
        (0, 0, True, False),
    ],
)
def test_only_an_empty_or_older_document_that_ends_most_work_is_held(
    wanted, running, went_back, held
):
    replicas = tuple(a_replica(id=f"r-{n}") for n in range(wanted))
    live = frozenset(f"r-{n}" for n in range(running))
    assert is_mass_removal(replicas, live, is_older=went_back) is held
