"""A Redis server on a free loopback port, without persistence."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.environment.debian import REDIS
from tests.environment.levels import skip_without
from tests.environment.programs import Program, free_port, temporary_home


class RedisServer:
    """The server. After `kill` and `start` it has forgotten everything, as in production."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self._program: Program | None = None

    def start(self) -> None:
        """Start it, or start it again on the same port."""
        network = ("--bind", "127.0.0.1", "--port", str(self.port))
        forgetful = ("--save", "", "--appendonly", "no", "--dir", str(self.home))
        self._program = Program(
            [REDIS.path() or "", *network, *forgetful],
            log=self.home / "redis.log",
            environ=os.environ,
        )
        self._program.wait_ready(self._answers)

    @property
    def pid(self) -> int:
        assert self._program, "it was never started"
        return self._program.process.pid

    def stop(self) -> None:
        if self._program:
            self._program.stop()

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._program, "it was never started"
        self._program.kill()

    def url(self, database: int = 0) -> str:
        """What TESSERA_REDIS_URL and TESSERA_BROKER_URL take; 16 databases, 0 to 15."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url()) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


@contextlib.contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A server for as long as the block runs; for programs that are not tests too."""
    with temporary_home("redis") as home, contextlib.ExitStack() as stack:
        server = RedisServer(home)
        stack.callback(server.stop)
        server.start()
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the session; a test that leaves keys behind takes a database of its own."""
    skip_without(REDIS)
    with running_redis() as server:
        yield server
