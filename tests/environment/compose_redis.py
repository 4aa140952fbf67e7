"""Redis as `docker-compose.yml` starts it: with its users, on a free loopback port."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
import yaml

from tests.environment.programs import Program, free_port, temporary_home

COMPOSE = Path(__file__).resolve().parents[2] / "docker-compose.yml"
PASSWORDS = {"COUNTS_PASSWORD": "c0c0", "BROKER_PASSWORD": "b0b0"}


@dataclass(frozen=True)
class ComposeRedis:
    port: int

    @property
    def counts_url(self) -> str:
        """What TESSERA_REDIS_URL is in the containers."""
        return f"redis://counts:{PASSWORDS['COUNTS_PASSWORD']}@127.0.0.1:{self.port}/0"

    @property
    def broker_url(self) -> str:
        """What TESSERA_BROKER_URL is in the containers."""
        return f"redis://broker:{PASSWORDS['BROKER_PASSWORD']}@127.0.0.1:{self.port}/1"

    @property
    def nobody_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.counts_url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


@contextlib.contextmanager
def running_compose_redis() -> Iterator[ComposeRedis]:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    shell, option, script = services["redis"]["command"]
    server = ComposeRedis(free_port())
    with temporary_home("compose-redis") as home:
        here = f"redis-server - --port {server.port} --bind 127.0.0.1 --dir {home}"
        # Compose reads "$$" as "$".
        script = script.replace("$$", "$").replace("redis-server -", here)
        program = Program(
            [shell, option, script], log=home / "redis.log", environ=os.environ | PASSWORDS
        )
        try:
            program.wait_ready(server.answers)
            yield server
        finally:
            program.stop()
