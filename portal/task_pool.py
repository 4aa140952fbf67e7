"""The processes of a Celery worker: one that was killed is replaced within a second.

Celery is told that a process ends when its files are closed. The system may say so a moment before
the process can be waited for; Celery then looks again after 5 s, in which a worker of one process
does nothing.
"""

from collections.abc import Callable

from celery.concurrency import asynpool, prefork

LOOK_SECONDS = 1.0


class Processes(asynpool.AsynPool):
    @property
    def timers(self) -> dict[Callable[[], None], float]:
        return {self.maintain_pool: LOOK_SECONDS}


class TaskPool(prefork.TaskPool):
    Pool = Processes
