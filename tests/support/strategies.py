"""Policies and random queues, for properties of a planning pass."""

from hypothesis import strategies as st

from scheduler.core.model.policy import BackfillMode, OrderMode, PreemptionMode
from tests.support.queue_worlds import waiting
from tests.support.snapshots import NOW

POLICIES = st.fixed_dictionaries(
    {
        "order": st.sampled_from(list(OrderMode)),
        "backfill": st.sampled_from(list(BackfillMode)),
        "preemption": st.sampled_from(list(PreemptionMode)),
        "moves": st.sampled_from([0, 2]),
        "protection_seconds": st.sampled_from([0, 150]),
        "reservations": st.sampled_from([1, 2]),
    }
)


@st.composite
def queues(draw, *, nodes=2, exact=False):
    """Nodes of four GPUs and up to eight jobs whose limits hold; all may be stopped."""
    jobs, seconds = [], {}
    for number in range(1, draw(st.integers(2, 8)) + 1):
        gpus, replicas = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (4, 1), (4, nodes), (1, 2)]))
        limit = 100 * draw(st.integers(1, 8))
        seconds[str(number)] = limit if exact else draw(st.sampled_from([limit, limit // 2, 50]))
        jobs.append(
            waiting(
                str(number),
                gpus=gpus,
                replicas=replicas,
                time_limit_seconds=limit,
                queued_at=NOW + 50 * draw(st.integers(0, 6)),
                preemptible=draw(st.booleans()),
            )
        )
    return [4] * nodes, jobs, seconds
