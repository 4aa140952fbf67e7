"""The whole control plane for a benchmark: PostgreSQL, Redis, worker, a web process for people and
one for agents, as in docker-compose.yml, and agents.

Agents are real ones (`agents run`, a process for each node) or coroutines of one process.
"""

import contextlib
import json
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.control_plane.database import (
    SERVER_SETTINGS,
    DatabaseReader,
    database_reader,
)
from tests.benchmarks.control_plane.job_program import read_times
from tests.benchmarks.control_plane.processes import children_cpu_seconds, cpu_seconds, memory_mib
from tests.benchmarks.control_plane.replicas import ReplicaTimes
from tests.environment.postgres import PostgresServer, running_postgres
from tests.environment.redis import RedisServer, running_redis
from tests.services.stack import ROOT, Stack, until

# Benchmarks submit faster than one person may.
SETTINGS = "tests.benchmarks.control_plane.settings"
UNLIMITED = {"TESSERA_RATE_SUBMITS": "1000000/min", "TESSERA_RATE_CALLS": "1000000/min"}
SEED = "tests.benchmarks.control_plane.seed"


@dataclass(frozen=True, slots=True)
class Servers:
    postgres: PostgresServer
    redis: RedisServer


@contextlib.contextmanager
def running_servers() -> Iterator[Servers]:
    with running_postgres(SERVER_SETTINGS) as postgres, running_redis() as redis:
        yield Servers(postgres, redis)


class LineProgram:
    """A child that is spoken to in lines of JSON."""

    def __init__(self, module: str, settings: dict[str, Any], log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._log = log
        self._write(json.dumps(settings))

    def ask(self, question: str, seconds: float = 60) -> Any:
        self._write(question)
        return self.answer(seconds)

    def answer(self, seconds: float) -> Any:
        """The next line. Raises RuntimeError with its last words if it ended instead."""
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError(f"no answer in {seconds:.0f} s: {self._log.read_text()[-2_000:]}")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended: {self._log.read_text()[-2_000:]}")
        return json.loads(line)

    def has_answered(self) -> bool:
        """Whether `answer` would return, or raise, at once."""
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _write(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@dataclass
class Cluster:
    """`run_seconds`: of a job of coroutine agents. `probe_every`: so many of these agents have one
    that measures its reports."""

    servers: Servers
    var: Path
    nodes: int
    gpus: int
    coroutines: bool
    run_seconds: float
    probe_every: int = 0
    stack: Stack = field(init=False)
    reader: DatabaseReader = field(init=False)
    agents: LineProgram | None = None
    _exit: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> "Cluster":
        url = self.servers.postgres.create_database(migrated=True)
        self.stack = Stack(
            var=self.var,
            database_url=url,
            redis_url=self.servers.redis.url(int(self.coroutines)),
            nodes=tuple(f"node-{number:04}" for number in range(self.nodes)),
            gpus=self.gpus,
            extra_env=UNLIMITED | {"DJANGO_SETTINGS_MODULE": SETTINGS},
        )
        try:
            self._start(url)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.agents:
            self.agents.end()
        self.stack.__exit__()
        self._exit.close()
        self.servers.postgres.drop_database(self.stack.database_url)

    def _start(self, url: str) -> None:
        self.stack.seed(SEED, str(self.gpus), *self.stack.nodes)
        self.reader = self._exit.enter_context(database_reader(url))
        self.stack.start_worker()
        self.stack.start_web()
        self.stack.start_agent_web()
        if self.coroutines:
            self._start_coroutines()
        else:
            for name in self.stack.nodes:
                self.stack.start_agent(name)
        gpus, seconds = self.nodes * self.gpus, 60 + self.nodes
        until(lambda: self.reader.gpus() == gpus, seconds=seconds, what="all GPUs", every=0.2)

    def _start_coroutines(self) -> None:
        settings = {
            "url": self.stack.agent_url,
            "join": self.stack.seeded["join"],
            "gpus": self.gpus,
            "run_seconds": self.run_seconds,
            "probe_every": self.probe_every,
        }
        module = "tests.benchmarks.control_plane.agents_program"
        self.agents = LineProgram(module, settings, self.var / "agents.log")

    @property
    def times_file(self) -> Path:
        """Where jobs of real agents note when they ran."""
        return self.var / "job-times"

    def replica_times(self) -> dict[str, ReplicaTimes]:
        """By the job's uid; of coroutine agents only those since the last call."""
        if self.agents is None:
            return {times.job: times for times in read_times(self.times_file)}
        rows = self.agents.ask("tally")["replicas"]
        return {job: ReplicaTimes(job, started, ended) for job, started, ended in rows}

    def submits(self, **settings: Any) -> LineProgram:
        """Submitters at work; their one answer comes when they are done."""
        common = {"url": self.stack.url, "token": self.stack.seeded["token"]}
        module = "tests.benchmarks.control_plane.submitters"
        return LineProgram(module, common | settings, self.var / "submitters.log")

    def cpu(self) -> dict[str, float]:
        """Seconds of processor time so far, by process. `job_processes`: of real agents only."""
        running, servers = self.stack.running, self.servers
        found = {
            "web": _all(running["web"].pid),
            "agent_web": _all(running["agent-web"].pid),
            "worker": _all(running["worker"].pid),
            "postgres": _all(servers.postgres.pid),
            "redis": _all(servers.redis.pid),
        }
        if self.agents:
            return found | {"agents": _all(self.agents.process.pid)}
        pids = [running[name].pid for name in self.stack.nodes]
        jobs = sum(map(children_cpu_seconds, pids))
        return found | {"agents": sum(map(cpu_seconds, pids)), "job_processes": jobs}

    def memory(self) -> dict[str, float]:
        names = ("web", "agent-web", "worker")
        running = self.stack.running
        return {name.replace("-", "_"): round(memory_mib(running[name].pid), 1) for name in names}

    def until_settled(self, after: int, jobs: int, seconds: float) -> None:
        """All jobs behind this one have ended, and all devices are released."""
        ended = lambda: self.reader.ended(after) >= jobs  # noqa: E731 - a word for one line
        until(ended, seconds=seconds, what=f"{jobs} jobs to end", every=0.2)
        released = lambda: self.reader.held_devices() == 0  # noqa: E731
        until(released, seconds=90, what="all devices to be released", every=0.2)

    def begin_queued(self, jobs: int) -> float:
        """So many jobs queued at once, past REST; when they were there, in Unix time."""
        return float(self.stack.manage_program(SEED, "queue", str(jobs)))


def _all(pid: int) -> float:
    return cpu_seconds(pid) + children_cpu_seconds(pid)
