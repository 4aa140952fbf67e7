"""Gangs start whole or not at all, whatever fails: random walks, and walks of a portal that is
wrong, which are told."""

import os

import pytest
from django.db import transaction

from agents.runtime.port_offers import PortOffers
from portal.database import kept_queries
from portal.jobs import lifecycle, rollups
from portal.live import bell
from scheduler.core.model.states import AttemptState, ReplicaStatus, attempt_state
from tests.conftest import clear_caches
from tests.property.gang_walk import GangWalk, gang_walk

pytestmark = pytest.mark.django_db
STEPS = 16
# `GANG_WALKS=1000:2000` walks other seeds than the slow test does by itself. A walk is 1.5 s of a
# processor.
FIRST, END = map(int, os.environ.get("GANG_WALKS", "3:40").split(":"))


@pytest.fixture(autouse=True)
def no_bells(monkeypatch) -> None:
    """Passes, drives and sweeps are steps of the walk."""
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)


@pytest.fixture(autouse=True)
def texts_are_kept(monkeypatch) -> None:
    """As on PostgreSQL: 40 % of a walk would be Django making the same texts anew."""
    monkeypatch.setattr(kept_queries, "KEPT_ON", kept_queries.KEPT_ON | {"sqlite"})


def walked(seed: int) -> GangWalk:
    """What is written is no more afterwards."""
    clear_caches.__wrapped__()
    with transaction.atomic():
        walk = gang_walk(seed=seed, steps=STEPS)
        transaction.set_rollback(True)
    return walk


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(
    "seeds",
    [
        range(3),
        pytest.param(range(FIRST, END), marks=[pytest.mark.slow, pytest.mark.soak]),
    ],
)
def test_no_walk_leaves_a_half_gang_or_anything_of_one(seeds):
    for seed in seeds:
        walk = walked(seed)
        print(seed, len(walk.violations), flush=True)
        assert not walk.violations, (seed, walk.violations, dict(walk.done))


def told(seeds=range(8)) -> str:
    """What is wrong in the first of these walks that finds something."""
    return next((walk.violations[0] for walk in map(walked, seeds) if walk.violations), "")


@pytest.mark.slow
def test_a_walk_tells_of_a_rank_that_starts_before_the_others_are_ready(monkeypatch):
    def hasty(replicas):
        states = list(replicas)
        is_ready = any(status is ReplicaStatus.READY for status, _ in states)
        is_early = attempt_state(states) is AttemptState.PREPARING
        return AttemptState.READY if is_ready and is_early else attempt_state(states)

    monkeypatch.setattr(rollups, "attempt_state", hasty)
    assert "not all were ready" in told()


@pytest.mark.slow
def test_a_walk_tells_of_ranks_that_are_left_alone(monkeypatch):
    """A portal that ends the attempt, and asks no other rank to stop."""
    monkeypatch.setattr(lifecycle, "_replica_stop", lambda *_: None)
    assert told()


@pytest.mark.slow
def test_a_walk_tells_of_two_gangs_with_one_port(monkeypatch):
    monkeypatch.setattr(PortOffers, "offer", lambda *_: 29_500)
    assert "replicas have" in told()
