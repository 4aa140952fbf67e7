"""Compiles, or loads, what forecasts run on before the first job asks for one."""

from dataclasses import replace

from scheduler.core.forecast.queue_values import QueueState, RunningEntry, WaitingEntry
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.starts import MIN_ENDED_RUNS, start_estimates
from scheduler.core.model.decisions import Estimate
from scheduler.core.model.snapshot import WaitingJob


def warm_forecasts(job: WaitingJob) -> Estimate | None:
    """Learns of this job as if nobody had chosen its limit, and runs a queue of the mind forward:
    one GPU, for which a job waits until another has ended."""
    job, outlook = replace(job, limit_is_chosen=False), RuntimeModel()
    outlook.add_job(job, 1.0)
    outlook.work(job, 1.0, 0.0)
    curve = outlook.hazard_curve(job, 1.0)
    state = QueueState(
        now=0.0,
        total=(1,),
        free=(0,),
        running=(RunningEntry(((0, 1),), 0.0, 60.0, curve=0),),
        waiting=(WaitingEntry(job.id, 0.0, 1, 1, 60.0, 0.0, curve=0),),
        curves=(curve,),
        ended_runs=MIN_ENDED_RUNS,
    )
    return start_estimates(state, runs=1)[job.id]
