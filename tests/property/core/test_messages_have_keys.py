"""Whatever the world: each sentence that leaves the planner has a key, and all of its values."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contract.codec import encode
from agents.contract.message import TEMPLATES, read_message, render
from scheduler.core.explain.alternatives import alternatives
from scheduler.core.model.policy import BackfillMode, Policy
from scheduler.core.model.snapshot import BudgetView, OwnerView
from scheduler.core.placement.feasibility import ClusterCapacity, infeasible_reason
from scheduler.core.plan import plan_and_can_start
from tests.property.core.worlds import worlds
from tests.support.chinese import in_chinese
from tests.support.snapshots import NOW

# Fewer do not reach all kinds.
many = settings(max_examples=100, deadline=None, derandomize=True)

AWAY = ["node.enrolled", "node.unreachable", "node.lost", "node.cordoned", "node.blocks"]
seen: set[str] = set()


def keys_in(stored):
    """Of a stored sentence and of those inside it."""
    if isinstance(stored, dict) and "key" in stored:
        yield stored["key"]
        for value in stored["values"].values():
            for each in value if isinstance(value, list) else [value]:
                yield from keys_in(each)


def assert_told(said, *, may_be_plain=False):
    stored = said.as_dict()
    keys = set(keys_in(stored))
    seen.update(keys)
    assert keys <= TEMPLATES.keys()
    assert may_be_plain or "words" not in keys, f"a sentence without a key: {said.text}"
    assert read_message(stored) == said
    assert encode(said) == stored
    assert "%(" not in said.text
    chinese = render(said, in_chinese)
    assert "%(" not in chinese
    assert bool(chinese) == bool(said.text)


@st.composite
def waiting_worlds(draw):
    """With what keeps jobs from starting: holds, begin times, other jobs, budgets, caps, nodes that
    are away."""
    world = draw(worlds())
    jobs = tuple(
        replace(
            job,
            hold_reason=draw(st.sampled_from(["", "", "", "", "later (ada)"])),
            begin_at=draw(st.sampled_from([0, 0, 0, NOW + 60])),
            after=draw(st.sampled_from([(), (), (), ("9",), ("8", "9")])),
        )
        for job in world.jobs
    )
    nodes = tuple(
        node
        if node.available
        else replace(node, unavailable_reason="why", unavailable_key=draw(st.sampled_from(AWAY)))
        for node in world.nodes
    )
    budgets = (
        BudgetView("p", draw(st.sampled_from(["", "u"])), 2 * 10**8, 10**8, 10**7, NOW + 9_999),
    )
    owners = (OwnerView("q", "", max_running=1), OwnerView("q", "v", max_running=1))
    return replace(
        world,
        jobs=jobs,
        nodes=nodes,
        budgets=budgets if draw(st.booleans()) else (),
        owners=owners if draw(st.booleans()) else (),
    )


@many
@given(snapshot=waiting_worlds(), backfill=st.sampled_from([BackfillMode.EASY, BackfillMode.NONE]))
def check_sentences(snapshot, backfill):
    plan, can_start = plan_and_can_start(snapshot, Policy(backfill=backfill))
    jobs = {job.id: job for job in snapshot.jobs}
    boards = ClusterCapacity(snapshot).boards
    for place in plan.placements:
        assert_told(place.message)
    for hold in plan.deferrals:
        assert_told(hold.reason.message)
        assert_told(hold.reason.unblocks_message)
        assert hold.reason.sentence == hold.reason.as_dict()["sentence"]
        for one in alternatives(jobs[hold.job], boards, can_start):
            assert_told(one.message)
    for job in snapshot.jobs:
        for other in (job, replace(job, replicas=9_999), replace(job, memory_mib=10**9)):
            if reason := infeasible_reason(other, snapshot):
                assert_told(reason.message)


def test_no_sentence_leaves_the_planner_without_a_key():
    check_sentences()
    # The worlds reach reasons of many kinds.
    assert {
        "resources.devices",
        "held",
        "begin_time",
        "dependency",
        "clause.then",
        "budget.used_up",
        "priority.behind",
        "node_unavailable.all",
        "never.host_memory",
    } <= seen, seen
