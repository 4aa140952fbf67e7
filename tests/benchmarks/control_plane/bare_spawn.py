"""The same jobs without anything around them: spawned as processes, as many at once as GPUs."""

import asyncio
import resource
import time
from pathlib import Path

from tests.benchmarks.control_plane.job_program import job_script, read_times


def bare_spawn(jobs: int, at_once: int, seconds: float, folder: Path) -> dict[str, float]:
    """Jobs a second, and the processor time of a job's own processes."""
    times = folder / f"bare-{time.monotonic_ns()}"
    script = job_script(seconds, times, "NONE")
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    asyncio.run(_spawn_all(jobs, at_once, script))
    took = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(read_times(times)) == jobs
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"jobs_per_s": round(jobs / took, 1), "cpu_ms_per_job": round(cpu * 1_000 / jobs, 1)}


async def _spawn_all(jobs: int, at_once: int, script: str) -> None:
    numbers = iter(range(jobs))

    async def slot() -> None:
        for number in numbers:
            child = await asyncio.create_subprocess_exec(
                *("bash", "-c", script, "bash", str(number)), stdout=asyncio.subprocess.DEVNULL
            )
            if await child.wait():
                raise RuntimeError(f"job {number} failed")

    await asyncio.gather(*(slot() for _ in range(at_once)))
