"""The tables of states: closed, with ends that are ends; and the rollup of replicas to a job."""

import itertools

import pytest

from agents.contract.documents import ReplicaState
from scheduler.core.model.states import (
    ALLOCATION_EDGES,
    ALLOCATION_LIVE,
    EDGES,
    JOB_ALLOCATED,
    JOB_EDGES,
    JOB_FINAL,
    JOB_WAITING,
    REPLICA_EDGES,
    SLICE_EDGES,
    SLICE_LIVE,
    AllocationStatus,
    AttemptState,
    JobStatus,
    NodeStatus,
    ReplicaStatus,
    SliceStatus,
    attempt_state,
    is_allowed,
)

KINDS = {
    "job": JobStatus,
    "replica": ReplicaStatus,
    "allocation": AllocationStatus,
    "slice": SliceStatus,
    "node": NodeStatus,
}
ENDS = {
    "job": {"succeeded", "failed", "cancelled", "timed_out"},
    "replica": {"exited", "failed"},
    "allocation": {"released"},
    "slice": {"deleted"},
    "node": {"retired"},
}
every_noun = pytest.mark.parametrize("noun", sorted(EDGES))
P, S, D, R, X, F, L = (
    ReplicaStatus.PENDING,
    ReplicaStatus.PREPARING,
    ReplicaStatus.READY,
    ReplicaStatus.RUNNING,
    ReplicaStatus.EXITED,
    ReplicaStatus.FAILED,
    ReplicaStatus.LOST,
)


def reachable(edges, start):
    found, todo = {start}, [start]
    while todo:
        new = edges[todo.pop()] - found
        found |= new
        todo += new
    return found


@every_noun
def test_a_table_has_a_row_for_every_state_and_leads_only_to_its_own_states(noun):
    edges, kind = EDGES[noun], KINDS[noun]
    assert set(edges) == set(kind)
    assert all(isinstance(target, kind) for targets in edges.values() for target in targets)


@every_noun
def test_the_final_states_are_exactly_those_without_a_way_out(noun):
    assert {str(s) for s, targets in EDGES[noun].items() if not targets} == ENDS[noun]


@every_noun
def test_every_state_is_reached_from_the_first_and_reaches_an_end(noun):
    edges = EDGES[noun]
    assert reachable(edges, next(iter(edges))) == set(edges)
    for state in edges:
        assert any(not edges[end] for end in reachable(edges, state)), state


@every_noun
def test_no_state_leads_to_itself(noun):
    assert not any(is_allowed(EDGES[noun], state, state) for state in EDGES[noun])


def test_a_finished_job_never_comes_back():
    for end, target in itertools.product(JOB_FINAL, JobStatus):
        assert not is_allowed(JOB_EDGES, end, target)


def test_every_job_that_is_not_finished_can_be_cancelled_and_can_fail():
    for state in set(JobStatus) - JOB_FINAL:
        assert is_allowed(JOB_EDGES, state, JobStatus.CANCELLED)
        assert is_allowed(JOB_EDGES, state, JobStatus.FAILED)


def test_only_a_job_that_holds_devices_goes_back_to_the_queue():
    back = {s for s in JobStatus if is_allowed(JOB_EDGES, s, JobStatus.QUEUED)}
    assert back - JOB_WAITING == JOB_ALLOCATED


def test_a_job_waits_or_holds_or_is_finished_and_never_two_of_them():
    parts = (JOB_WAITING, JOB_ALLOCATED, JOB_FINAL)
    assert sorted(itertools.chain(*parts)) == sorted(JobStatus)


def test_success_is_reached_only_by_what_ran():
    before = {s for s in JobStatus if is_allowed(JOB_EDGES, s, JobStatus.SUCCEEDED)}
    assert before == {JobStatus.RUNNING, JobStatus.STOPPING}


def test_a_running_replica_is_never_prepared_again():
    assert not reachable(REPLICA_EDGES, R) & {P, S, D}


def test_what_was_lost_may_still_be_told_to_have_ended_and_nothing_else():
    assert REPLICA_EDGES[L] == {X, F}


def test_devices_are_live_until_they_are_released_and_deleted():
    assert set(AllocationStatus) - ALLOCATION_LIVE == {AllocationStatus.RELEASED}
    assert set(SliceStatus) - SLICE_LIVE == {SliceStatus.DELETED}
    assert not reachable(ALLOCATION_EDGES, AllocationStatus.RELEASING) & {
        AllocationStatus.RESERVED,
        AllocationStatus.BOUND,
    }
    assert reachable(SLICE_EDGES, SliceStatus.DELETING) == {
        SliceStatus.DELETING,
        SliceStatus.DELETED,
    }


def test_a_replicas_words_are_those_of_the_wire():
    assert {str(s) for s in ReplicaStatus} == {str(s) for s in ReplicaState}


ROLLUP = {
    "nothing said yet": ([(P, None), (P, None)], AttemptState.WAITING),
    "one prepares": ([(P, None), (S, None)], AttemptState.PREPARING),
    "one is ready, one is not": ([(D, None), (S, None)], AttemptState.PREPARING),
    "one is ready, one unheard": ([(D, None), (P, None)], AttemptState.PREPARING),
    "all ready: the barrier": ([(D, None), (D, None)], AttemptState.READY),
    "one runs already": ([(D, None), (R, None)], AttemptState.RUNNING),
    "all run": ([(R, None), (R, None)], AttemptState.RUNNING),
    "one is done, one runs": ([(X, 0), (R, None)], AttemptState.RUNNING),
    "one is done, one unheard": ([(X, 0), (P, None)], AttemptState.RUNNING),
    "all done": ([(X, 0), (X, 0)], AttemptState.SUCCEEDED),
    "one crashed, others run": ([(X, 1), (R, None), (R, None)], AttemptState.FAILED),
    "one was killed": ([(X, 137), (X, 0)], AttemptState.FAILED),
    "ended, and nobody knows how": ([(X, None), (X, 0)], AttemptState.FAILED),
    "one could not be prepared": ([(F, None), (D, None)], AttemptState.FAILED),
    "one is lost": ([(L, None), (R, None)], AttemptState.LOST),
    "one is lost, one is done": ([(L, None), (X, 0)], AttemptState.LOST),
    "one crashed and one is lost": ([(L, None), (X, 1)], AttemptState.FAILED),
}


@pytest.mark.parametrize("case", ROLLUP)
def test_the_replicas_of_an_attempt_roll_up_to_one_outcome(case):
    replicas, outcome = ROLLUP[case]
    assert attempt_state(replicas) is outcome
    assert attempt_state(reversed(replicas)) is outcome


EVERY = [(s, None) for s in (P, S, D, R, F, L)] + [(X, 0), (X, 1)]


def test_the_rollup_of_three_replicas_follows_the_promises_whatever_they_say():
    for three in itertools.product(EVERY, repeat=3):
        outcome = attempt_state(three)
        assert {attempt_state(other) for other in itertools.permutations(three)} == {outcome}
        broken = any(s is F or (s is X and code) for s, code in three)
        assert (outcome is AttemptState.FAILED) == broken, three
        assert (outcome is AttemptState.SUCCEEDED) == (set(three) == {(X, 0)}), three
        assert (outcome is AttemptState.READY) == (set(three) == {(D, None)}), three
        assert (outcome is AttemptState.LOST) == (not broken and (L, None) in three), three
