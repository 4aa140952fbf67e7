"""A RuntimeModel that grows event by event equals one that is built from a snapshot."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.snapshot import ClusterSnapshot, PastRun, RunningJob
from tests.support.examples import examples
from tests.unit.forecast.jobs import a_job

NOW = 10_000_000

histories = st.lists(
    st.fixed_dictionaries(
        {
            "gpus": st.sampled_from([1, 2, 8]),
            "user": st.sampled_from(["ada", "bob"]),
            "group": st.sampled_from(["train", "test"]),
            "ran": st.integers(1, 3_000_000),
            "limit": st.integers(60, 4_000_000),
            "chosen": st.booleans(),
            "fate": st.sampled_from(["completed", "cut", "running", "waiting"]),
            "asked": st.booleans(),
        }
    ),
    min_size=1,
    max_size=60,
)


def answers(model, jobs):
    return [
        (
            model.work(job, job.device.gpus, NOW),
            model.mean_seconds(job, job.device.gpus, NOW),
            model.remaining(job, job.device.gpus, NOW, 0.5),
        )
        for job in jobs
    ]


@examples(60)
@given(histories)
def test_incremental_equals_rebuilt(history):
    grown, past, waiting, running, live = RuntimeModel(), [], [], [], []
    ends = []
    for at, each in enumerate(history, start=1):
        each = dict(each)
        fate, ran, asked = each.pop("fate"), each.pop("ran"), each.pop("asked")
        job = a_job(str(at), at=at, **each)
        grown.add_job(job, job.device.gpus)
        grown.update_attained(job.id, ran // 2)
        if asked:
            grown.work(job, job.device.gpus, NOW)  # so that something is kept that must change
        if fate == "waiting":
            grown.update_attained(job.id, ran)
            waiting.append(a_job(str(at), at=at, attained=ran, **each))
            live.append(waiting[-1])
        elif fate == "running":
            grown.update_attained(job.id, ran, NOW)
            running.append(RunningJob(job, (), started_at=NOW - ran))
            live.append(job)
        else:
            ends.append((job, ran, fate == "completed"))
            past.append(
                PastRun(
                    project=job.project,
                    user=job.user,
                    group=job.group,
                    gpus=job.device.gpus,
                    limit_seconds=job.time_limit_seconds,
                    limit_is_chosen=job.limit_is_chosen,
                    ran_seconds=ran,
                    completed=fate == "completed",
                    ended_at=at + ran,
                    queued_at=at,
                )
            )
    past.sort(key=lambda run: run.ended_at)
    for job, ran, completed in sorted(ends, key=lambda e: e[0].queued_at + e[1]):
        (grown.complete if completed else grown.cut_off)(job.id, ran)
    built = RuntimeModel.from_snapshot(
        ClusterSnapshot(now=NOW, jobs=tuple(waiting), running=tuple(running), history=tuple(past))
    )
    assert answers(grown, live) == answers(built, live)
    assert grown.runs == built.runs
    assert (grown.ratios.values() == built.ratios.values()).all()
