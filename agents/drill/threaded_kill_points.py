"""A fuse for an agent of several threads: every request to a container engine is a point.

The agent's own thread and each log copy is a lane. A point is a lane and its number on it, so that
it is the same point in every run, however the threads take turns. A request is cut before it is
sent (the engine never heard of it) or when its answer is there (the engine did it, and the agent
never knew).
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
    """`at`: the point to end at; None only counts. `met`: every point and what it is, in the order
    of passing."""

    def __init__(self, at: Point | None = None) -> None:
        super().__init__()
        self.kill_point = at
        self.points: dict[Point, str] = {}
        self.is_dead = False
        self._numbers: Counter[str] = Counter()
        self._agent = threading.current_thread()
        self._turn = threading.Lock()

    def point(self, where: str) -> None:
        """Ends the thread that passes, where the agent is dead or dies here.

        Raises Killed in the agent's own thread, SystemExit in another: that ends it in silence.
        """
        if self.is_paused():
            return
        is_own = threading.current_thread() is self._agent
        lane = AGENT if is_own else threading.current_thread().name
        with self._turn:
            self._pass(lane, where)
            if not self.is_dead:
                return
        raise Killed(where) if is_own else SystemExit

    def revive(self) -> None:
        """Another agent lives. No thread of the one before may be left."""
        self.is_dead = False

    def _pass(self, lane: str, where: str) -> None:
        if self.is_dead:
            return
        self._numbers[lane] += 1
        here = (lane, self._numbers[lane])
        self.points[here] = f"{lane} {where}"
        self.passed += 1
        if here == self.kill_point:
            self.where, self.is_dead = self.points[here], True


@contextmanager
def client_kill_points(switch: ThreadedKillSwitch, clients: list[APIClient]) -> Iterator[None]:
    """Clients made in the block pass the fuse with every request, for as long as they live.

    `made` receives them, so that whoever ends an agent can close what it leaves open.
    """

    class FusedClient(APIClient):
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

    with patch.object(docker.client, "APIClient", FusedClient):
        yield


def _route(path: str) -> str:
    """Without version, question and identities: the same in every run."""
    words = path.partition("?")[0].strip("/").split("/")[1:]
    is_id = len(words) > 1 and words[1] not in ("json", "create")
    if is_id:
        words[1] = "*"
    return "/".join(words)
