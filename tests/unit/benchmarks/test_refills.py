"""How long a freed GPU was idle, from the lives of the jobs on it."""

from datetime import UTC, datetime, timedelta

from tests.benchmarks.control_plane.database import JobLife
from tests.benchmarks.control_plane.figures import jobs_per_second, refills
from tests.benchmarks.control_plane.replicas import ReplicaTimes

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def a_life(uid, *, queued, reserved, known_ended, released, gpu="gpu-1"):
    return JobLife(
        job=1,
        uid=uid,
        status="succeeded",
        submitted_at=at(queued),
        queued_at=at(queued),
        placed_at=at(reserved),
        known_started_at=at(reserved),
        known_ended_at=at(known_ended),
        finished_at=at(known_ended),
        reserved_at=at(reserved),
        released_at=at(released),
        gpu=gpu,
    )


def ran(uid, started, ended):
    return ReplicaTimes(uid, at(started).timestamp(), at(ended).timestamp())


FIRST = a_life("a", queued=0, reserved=1, known_ended=5.1, released=5.4)
TIMES = {"a": ran("a", 1.5, 5), "b": ran("b", 6, 7)}


def test_the_steps_of_a_refill_add_up_to_its_idle_time():
    second = a_life("b", queued=4, reserved=5.7, known_ended=7.1, released=7.4)
    (steps,) = refills([second, FIRST], TIMES)
    rounded = {name: round(milliseconds) for name, milliseconds in steps.items()}
    assert rounded == {
        "ended_to_known": 100,
        "known_to_released": 300,
        "released_to_reserved": 300,
        "reserved_to_started": 300,
        "idle": 1_000,
    }


def test_a_gpu_for_which_no_job_waited_was_not_idle():
    came_later = a_life("b", queued=5.5, reserved=5.7, known_ended=7.1, released=7.4)
    assert refills([FIRST, came_later], TIMES) == []


def test_jobs_on_different_gpus_refill_nothing():
    elsewhere = a_life("b", queued=4, reserved=5.7, known_ended=7.1, released=7.4, gpu="gpu-2")
    assert refills([FIRST, elsewhere], TIMES) == []


def test_the_rate_counts_from_the_first_submit_to_the_last_end():
    second = a_life("b", queued=4, reserved=5.7, known_ended=8, released=8.1)
    assert jobs_per_second([FIRST, second], at(0).timestamp()) == 0.25
