"""What a RuntimeModel learns, and which job it puts first."""

import numpy as np
import pytest

from agents.contract.boards import known_boards
from scheduler.core.forecast import hazard as hz
from scheduler.core.forecast.runtime_model import RuntimeModel, gpus_needed
from scheduler.core.forecast.similarity import Similarity, normalised_name, size_class
from scheduler.core.model.snapshot import ClusterSnapshot, DeviceRequest, RunningJob
from tests.unit.forecast.jobs import a_job, a_run

HOUR = 3_600
DAY = 24 * HOUR


def learned(*runs, jobs=(), running=(), now=1_000_000):
    return RuntimeModel.from_snapshot(
        ClusterSnapshot(now=now, history=runs, jobs=jobs, running=running)
    )


def size_curve(model):
    """What is known of one GPU without a neighbour: the curve of a user that never ran a job."""
    return model.hazard_curve(a_job("none", user="new"), 1)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("sweep-lr0.001_seed7-3fa9c2d1", "sweep-lr-seed"),
        ("Train ResNet50 (2)", "train-resnet"),
        ("train-42", "train"),
        ("feed", "feed"),
        ("decade-facade", "decade-facade"),
        ("12345", ""),
    ],
)
def test_names_of_one_sweep_are_alike(name, plain):
    assert normalised_name(name) == plain
    assert normalised_name(plain) == plain


def test_slices_and_shares_are_one_class_of_size():
    assert [size_class(gpus) for gpus in (1 / 7, 0.999, 1, 2.5, 8)] == [0, 0, 1, 2, 8]


def test_the_size_of_a_slice_is_its_part_of_a_gpu():
    board = known_boards()["H200-141GB"]
    whole = a_job("1", gpus=4, replicas=2)
    assert gpus_needed(whole, [board]) == 8
    part = a_job("2", gpus=0)
    part = type(part)(**{**_fields(part), "device": DeviceRequest(mig="1g.18gb")})
    assert gpus_needed(part, [board]) == pytest.approx(1 / 7, rel=0.2)
    assert gpus_needed(part, []) == 0


def _fields(job):
    return {name: getattr(job, name) for name in type(job).__slots__}


def test_with_nothing_known_every_gpu_counts_the_same():
    model = RuntimeModel()
    one, eight = a_job("1"), a_job("2", gpus=8)
    assert model.work(eight, 8, 0) == pytest.approx(8 * model.work(one, 1, 0))


def test_a_job_like_those_that_ended_soon_is_less_work():
    runs = [a_run(50, group="test", at=i) for i in range(9)]
    runs += [a_run(2 * DAY, group="train", at=i) for i in range(9)]
    model = learned(*runs)
    short = a_job("1", group="test", limit=30 * DAY)
    long = a_job("2", group="train", limit=30 * DAY)
    assert model.work(short, 1, 0) < model.work(long, 1, 0) / 2
    assert model.mean_seconds(short, 1, 0) < model.mean_seconds(long, 1, 0)


def test_it_matters_whose_runs_they_were():
    of_others = [a_run(2 * DAY, user="cy", at=i) for i in range(9)]
    model = learned(*(a_run(50, user="bob", at=i) for i in range(9)), *of_others)
    assert model.work(a_job("1", user="bob"), 1, 0) < model.work(a_job("2"), 1, 0)


def test_the_newest_runs_count_most():
    model = learned(
        *(a_run(50, group="was-short", at=i) for i in range(15)),
        *(a_run(2 * DAY, group="was-short", at=DAY + i) for i in range(5)),
        *(a_run(2 * DAY, group="was-long", at=i) for i in range(5)),
        *(a_run(50, group="was-long", at=DAY + i) for i in range(15)),
    )
    now_long, now_short = a_job("1", group="was-short"), a_job("2", group="was-long")
    assert model.work(now_short, 1, 0) < model.work(now_long, 1, 0)


def test_a_group_of_one_neighbour_is_weighed_as_the_facts_say():
    likeness = Similarity()
    model = learned(a_run(50), jobs=())
    own = model.hazard_curve(a_job("1"), 1)
    size = size_curve(model)
    weight = np.exp(-1 / likeness.decay)
    expected = (weight * hz.ENDS[0] + size) / (weight * hz.AT_RISK[0] + 1)
    assert own[:-1] == pytest.approx(expected[:-1])


def test_neighbours_beyond_reach_do_not_count():
    near = learned(a_run(50, at=0), *(a_run(DAY, at=i) for i in range(1, 15)))
    far = learned(a_run(50, at=0), *(a_run(DAY, at=i) for i in range(1, 16)))
    size = size_curve(far)

    def added(model):
        return model.hazard_curve(a_job("1"), 1)[0] * 1.0

    ended_near = np.exp(-15 / 5) * hz.ENDS[0, 0]
    assert ended_near > 0
    rest = sum(np.exp(-d / 5) for d in range(1, 16))
    assert added(far) == pytest.approx(size[0] / (rest + 1))
    assert added(near) > size_curve(near)[0] / (rest + 1) + ended_near / (rest + 1) * 0.99


def test_other_sizes_of_the_same_user_count_a_quarter():
    model = learned(a_run(50, gpus=4))
    size = size_curve(model)
    weight = 0.25 * np.exp(-1 / 5)
    expected = (weight * hz.ENDS[0] + size) / (weight * hz.AT_RISK[0] + 1)
    assert model.hazard_curve(a_job("1"), 1)[:-1] == pytest.approx(expected[:-1])


def test_jobs_that_still_run_keep_the_young_from_looking_short():
    ended = [a_run(50, at=999_000 + i) for i in range(3)]
    running = [
        RunningJob(a_job(f"r{i}", at=i, limit=30 * DAY), (), started_at=100 + i) for i in range(8)
    ]
    blind, aware = learned(*ended), learned(*ended, running=running)
    job = a_job("1", limit=30 * DAY)
    assert aware.mean_seconds(job, 1, 0) > blind.mean_seconds(job, 1, 0)


def test_a_run_that_was_cut_off_ends_nothing_in_the_hazard():
    model = learned(a_run(100, completed=False))
    curve = size_curve(model)
    # It left bin 0 (0 to 60 s) and bin 1 (60 to 90 s) alive.
    for b in (0, 1):
        pooled = 2 * hz.PRIOR[b] / 3
        assert curve[b] == pytest.approx(5 * pooled / 6)
    assert curve[2] == pytest.approx(hz.PRIOR[2])


def test_a_limit_that_its_user_chose_orders_jobs_by_what_is_left_of_it():
    model = RuntimeModel()
    job = a_job("1", gpus=4, limit=10 * HOUR, chosen=True)
    assert model.work(job, 4, 0) == 4 * 0.5 * 10 * HOUR
    model.add_job(job, 4)
    model.update_attained("1", HOUR)
    assert model.work(job, 4, 0) == 4 * 0.5 * 9 * HOUR


def test_a_running_job_ages_with_the_clock():
    model = RuntimeModel()
    job = a_job("1", limit=10 * HOUR, chosen=True)
    model.add_job(job, 1)
    model.update_attained("1", HOUR, at=5_000)
    assert model.age(job, 5_000 + HOUR) == 2 * HOUR
    assert model.work(job, 1, 5_000 + HOUR) == 0.5 * 8 * HOUR
    guessed = a_job("2", limit=30 * DAY)
    model.add_job(guessed, 1)
    model.update_attained("2", 0, at=5_000)
    assert model.work(guessed, 1, 5_000 + DAY) > model.work(guessed, 1, 5_000)


def test_limits_that_a_user_never_comes_near_and_always_sets_alike_are_not_believed():
    ran = [30, 300, 3_000, 60, 600, 6_000, 30, 300, 3_000]
    model = learned(
        *(a_run(r, limit=7 * DAY, chosen=True, at=i) for i, r in enumerate(ran)),
        *(a_run(r, user="bob", limit=2 * r, chosen=True, at=i) for i, r in enumerate(ran)),
        *(a_run(r, user="cy", limit=40 * r, chosen=True, at=i) for i, r in enumerate(ran)),
    )
    assert not model.believes_limit(a_job("1", limit=7 * DAY, chosen=True))
    assert model.believes_limit(a_job("2", user="bob", chosen=True))
    assert model.believes_limit(a_job("3", user="cy", chosen=True)), "far, but in step"
    assert model.believes_limit(a_job("4", user="new", chosen=True))
    assert not model.believes_limit(a_job("5", user="bob", chosen=False))


def test_the_share_of_limits_that_a_user_needs_is_learned():
    model = learned(*(a_run(HOUR, limit=10 * HOUR, chosen=True, at=i) for i in range(95)))
    job = a_job("1", limit=20 * HOUR, chosen=True)
    assert model.mean_seconds(job, 1, 0) == pytest.approx(20 * HOUR * (95 * 0.1 + 2.5) / 100)


def test_what_remains_is_never_more_than_the_limit_leaves():
    model = learned(*(a_run(20 * DAY, at=i) for i in range(9)))
    job = a_job("1", limit=HOUR)
    assert model.mean_seconds(job, 1, 0) == HOUR
    assert model.remaining(job, 1, 0, 0.9) == HOUR


def test_asking_about_a_job_that_nobody_submitted_changes_nothing():
    jobs = tuple(a_job(str(i), at=i) for i in range(4))
    model = learned(*(a_run(500, at=i) for i in range(6)), jobs=jobs)
    before = [model.work(job, 1, 0) for job in jobs]
    new = model.work(a_job("new", group="other"), 1, 0), model.work(a_job("n"), 1, 0)
    model.hazard_curve(a_job("m", gpus=3), 3)
    assert [model.work(job, 1, 0) for job in jobs] == before
    model.add_job(a_job("n"), 1)
    assert model.work(a_job("n"), 1, 0) == new[1]


def test_a_job_that_was_never_submitted_cannot_end():
    with pytest.raises(KeyError):
        RuntimeModel().complete("1", 60)
