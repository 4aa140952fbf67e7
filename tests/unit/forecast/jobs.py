"""Jobs and runs for the tests of forecasts."""

from scheduler.core.model.snapshot import DeviceRequest, PastRun, Priority, WaitingJob


def a_job(
    id: str,
    gpus: int = 1,
    *,
    user: str = "ada",
    group: str = "train",
    at: int = 0,
    limit: int = 14_400,
    chosen: bool = False,
    replicas: int = 1,
    attained: int = 0,
) -> WaitingJob:
    return WaitingJob(
        id=id,
        name=f"job-{id}",
        project="lab",
        user=user,
        priority=Priority.NORMAL,
        queued_at=at,
        replicas=replicas,
        device=DeviceRequest(gpus=gpus),
        cpu_milli=1_000,
        memory_mib=1_024,
        time_limit_seconds=limit,
        limit_is_chosen=chosen,
        attained_seconds=attained,
        group=group,
    )


def a_run(
    ran: int,
    *,
    user: str = "ada",
    group: str = "train",
    gpus: int = 1,
    limit: int = 14_400,
    chosen: bool = False,
    completed: bool = True,
    at: int = 0,
) -> PastRun:
    """`at`: when it was submitted and started."""
    return PastRun(
        project="lab",
        user=user,
        group=group,
        gpus=gpus,
        limit_seconds=limit,
        limit_is_chosen=chosen,
        ran_seconds=ran,
        completed=completed,
        ended_at=at + ran,
        queued_at=at,
    )
