"""At no instant do more members of an array run than its cap allows."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority
from tests.support.examples import examples
from tests.support.queue_worlds import play, waiting
from tests.support.snapshots import NOW

CAPS = {1: 1, 2: 3, 3: 0}


@st.composite
def members(draw):
    """Jobs of three arrays, of which the last has no cap, and of none."""
    jobs = []
    for number in range(draw(st.integers(1, 14))):
        array = draw(st.sampled_from((0, *CAPS)))
        low = draw(st.booleans())
        jobs.append(
            waiting(
                number,
                gpus=draw(st.integers(1, 2)),
                array=array,
                array_cap=CAPS.get(array, 0),
                queued_at=NOW + draw(st.integers(0, 40)),
                priority=Priority.LOW if low else Priority.HIGH,
                preemptible=low,
            )
        )
    return jobs


@examples(60)
@given(jobs=members(), seconds=st.lists(st.integers(5, 50), min_size=14, max_size=14))
def test_no_pass_starts_a_member_beyond_the_cap_of_its_array(jobs, seconds):
    started, _, plans = play((2, 3), jobs, {job.id: seconds[int(job.id)] for job in jobs})
    assert len(started) == len(jobs)
    for _, snapshot, found in plans:
        queue = {job.id: job for job in snapshot.jobs}
        running = [run.job for run in snapshot.running]
        running += [queue[place.job] for place in found.placements]
        counts = Counter(job.array for job in running)
        assert all(counts[array] <= cap for array, cap in CAPS.items() if cap)
        for deferral in found.deferrals:
            if deferral.reason.code is ReasonCode.ARRAY_CAP:
                job = queue[deferral.job]
                # A member that waits for others to stop, or for a slice, counts as well.
                assert job.array_cap
