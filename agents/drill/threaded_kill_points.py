"""A kill switch for an agent of several threads: every request to a container engine is a point.

A point is a thread and a number within it, so it is the same in every run, however the threads take
turns. A request is cut before it is sent (the engine never received it) or after its response (the
engine did the work, but the agent does not know).
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import docker.client
from docker import APIClient
from requests import PreparedRequest, Response

from agents.drill.kill_points import Killed, KillSwitch

AGENT = "agent"
Point = tuple[str, int]


class ThreadedKillSwitch(KillSwitch):
    """`kill_point`: the point to kill at; None only counts. `points`: every point passed, in order,
    with its request."""

    def __init__(self, kill_point: Point | None = None) -> None:
        super().__init__()
        self.kill_point = kill_point
        self.points: dict[Point, str] = {}
        self.is_dead = False
        self._numbers: Counter[str] = Counter()
        self._agent = threading.current_thread()
        self._turn = threading.Lock()

    def point(self, where: str) -> None:
        """Ends the calling thread if the agent is dead or is killed at this point.

        Raises Killed in the agent's own thread, and SystemExit, which ends silently, in others.
        """
        if self.is_paused():
            return
        is_own = threading.current_thread() is self._agent
        thread = AGENT if is_own else threading.current_thread().name
        with self._turn:
            self._pass(thread, where)
            if not self.is_dead:
                return
        raise Killed(where) if is_own else SystemExit

    def revive(self) -> None:
        """For a new agent, when no thread of the previous one is left."""
        self.is_dead = False

    def _pass(self, thread: str, where: str) -> None:
        if self.is_dead:
            return
        self._numbers[thread] += 1
        point = (thread, self._numbers[thread])
        self.points[point] = f"{thread} {where}"
        self.passed += 1
        if point == self.kill_point:
            self.killed_at, self.is_dead = self.points[point], True


@contextmanager
def client_kill_points(switch: ThreadedKillSwitch, clients: list[APIClient]) -> Iterator[None]:
    """Every request of clients created in the block is a kill point, as long as they live.

    `clients` receives them, so that the caller can close what a killed agent leaves open.
    """

    class GuardedClient(APIClient):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            clients.append(self)

        def send(self, request: PreparedRequest, **options: Any) -> Response:
            where = f"{request.method} {_route(request.path_url)}"
            switch.point(f"before {where}")
            answer = super().send(request, **options)
            try:
                switch.point(f"after {where}")
            except BaseException:
                answer.close()
                raise
            return answer

    with patch.object(docker.client, "APIClient", GuardedClient):
        yield


def _route(path: str) -> str:
    """Without version, query and ids: the same in every run."""
    words = path.partition("?")[0].strip("/").split("/")
    if words[0] != "version":
        del words[0]
    is_id = len(words) > 1 and words[1] not in ("json", "create")
    if is_id:
        words[1] = "*"
    return "/".join(words)
