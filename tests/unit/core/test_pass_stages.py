"""The stages of a turn: the example of `scheduler/core/queue/README.md`, stage by stage."""

from pathlib import Path

from scheduler.core import pass_stages
from scheduler.core.model.policy import OrderMode, Policy, PreemptionMode
from scheduler.core.model.reasons import Reason
from scheduler.core.pass_cache import PassCache
from scheduler.core.pass_stages import NEXT, STAGES, STARTED
from scheduler.core.pass_state import PassState
from scheduler.core.plan import plan
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW

HOUR = 3_600
FIRST_COME = Policy(order=OrderMode.FIFO, preemption=PreemptionMode.OFF, reservations=1)
README = Path(pass_stages.__file__).parent / "queue" / "README.md"


def three_jobs_and_two_gpus():
    """It is 9:00. J-1 runs on GPU 0 until 10:00; J-2, J-3 and J-4 wait."""
    running = a_run(waiting("1", time_limit_seconds=2 * HOUR), "n1/0", since=HOUR)
    jobs = [
        waiting("2", gpus=2, time_limit_seconds=4 * HOUR, queued_at=NOW - 30),
        waiting("3", gpus=1, time_limit_seconds=2 * HOUR, queued_at=NOW - 20),
        waiting("4", gpus=1, time_limit_seconds=HOUR // 2, queued_at=NOW - 10),
    ]
    return a_busy_cluster([2], running=[running], jobs=jobs)


def test_the_example_of_the_readme_is_planned_as_it_says():
    found = plan(three_jobs_and_two_gpus(), FIRST_COME)
    assert [(p.job, p.replicas[0].devices[0].gpu) for p in found.placements] == [("4", "n1/1")]
    reasons = [(d.job, str(d.reason.code)) for d in found.deferrals]
    assert reasons == [("2", "resources"), ("3", "reservation")]
    assert [(r.job, r.starts_at) for r in found.reservations] == [("2", NOW + HOUR)]
    assert found.bypassed == ("2", "3")


def test_each_job_of_the_example_ends_its_turn_in_the_stage_that_the_readme_names(monkeypatch):
    ended = {}

    def watched(stage):
        def run(state, turn):
            result = stage(state, turn)
            assert result in (NEXT, STARTED) or isinstance(result, Reason)
            if result is not NEXT:
                ended[turn.job.id] = stage.__name__
            return result

        return run

    monkeypatch.setattr(pass_stages, "STAGES", tuple(watched(stage) for stage in STAGES))
    plan(three_jobs_and_two_gpus(), FIRST_COME)
    assert ended == {"2": "explain_shortage", "3": "respect_reservations", "4": "place"}


def test_the_readme_lists_the_stages_in_their_order():
    lines = README.read_text().splitlines()
    listed = [
        line.split("`")[1] for line in lines if line.startswith("| `") and "_table" not in line
    ]
    assert listed == [stage.__name__ for stage in STAGES]


def test_the_last_stage_always_ends_the_turn():
    """Even for a job that fits: it is only reached by one that does not."""
    state = PassState.begin(three_jobs_and_two_gpus(), FIRST_COME, None, PassCache())
    job = state.snapshot.jobs[0]
    assert isinstance(STAGES[-1](state, state.turn(job, (1, 1, 0.0))), Reason)
