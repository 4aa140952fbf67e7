"""The whole product as processes on loopback: web, worker with beat, agents. Started and killed.

Used by the service tests, the benchmarks and nothing else. Every process it starts, it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.environment.django_sqlite import copy_migrated
from tests.environment.programs import free_port

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
# A bound for what never comes: a busy machine takes its time.
PATIENCE_SECONDS = 400


def until(
    check: Callable[[], T | None],
    *,
    seconds: float = PATIENCE_SECONDS,
    what: str = "it",
    every: float = 0.1,
) -> T:
    """The first true answer of `check`; AssertionError when time is up. Who asks more often takes
    the processor from those that it waits for."""
    end = time.monotonic() + seconds
    while True:
        if answer := check():
            return answer
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(every)


@dataclass
class Stack:
    """`database_url`: of a migrated database; empty: SQLite. `docker_url` empty: agents run jobs as
    plain processes."""

    var: Path
    database_url: str = ""
    redis_url: str = ""
    docker_url: str = ""
    nodes: tuple[str, ...] = ("node-a", "node-b")
    gpus: int = 2
    agent_options: tuple[str, ...] = ()
    # A program that runs each agent: its words come first.
    agent_wrapper: tuple[str, ...] = ()
    board: str = "H200-141GB"
    latency: str = "off"
    # By which agents call the portal; empty: its own address.
    agent_addresses: tuple[str, ...] = ()
    extra_env: dict[str, str] = field(default_factory=dict)
    # The policy file of each node; empty: none.
    policy: str = ""
    port: int = field(default_factory=free_port)
    # Of the web process that agents alone call; 0: they call the same one as people.
    agent_port: int = 0
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    seeded: dict[str, Any] = field(default_factory=dict)
    # A loaded machine answers late; a test waits for what it asked for, not for a time.
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=60))

    def __enter__(self) -> Stack:
        try:
            self.seed("tests.services.seed", *self.nodes)
            self.start_worker()
            self.start_web()
            for name in self.nodes:
                self.start_agent(name)
            self.until_online()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of it is wanted any more, so nothing is asked to end by itself."""
        for name in list(self.running):
            self.kill(name)
        self._end_what_is_left()
        self.http.close()

    def seed(self, program: str, *arguments: str) -> None:
        """Its database, with what the program writes into it; what that prints is `seeded`."""
        self.var.mkdir(parents=True, exist_ok=True)
        if not self.database_url:
            copy_migrated(self.var / "tessera.sqlite3")
        self.seeded = json.loads(self.manage_program(program, *arguments))

    def _end_what_is_left(self) -> None:
        """Jobs and MPS daemons outlive their agent, as they should; not this stack. They are known
        by where they work and what they were started with."""
        home = str(self.var.resolve()) + "/"
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_text(errors="replace")
                if home in f"{(process / 'cwd').readlink()}/" or home in words:
                    os.kill(int(process.name), signal.SIGKILL)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def agent_url(self) -> str:
        return f"http://127.0.0.1:{self.agent_port}" if self.agent_port else self.url

    @property
    def env(self) -> dict[str, str]:
        extra = {
            "DJANGO_SETTINGS_MODULE": "tests.services.settings",
            "TESSERA_VAR": str(self.var),
            "TESSERA_SECRET_KEY": "s" * 60,
            "TESSERA_PARTITION_DWELL_SECONDS": "0",
            "PYTHONPATH": str(ROOT),
        }
        if self.database_url:
            extra["TESSERA_DATABASE_URL"] = self.database_url
        if self.redis_url:
            extra |= {"TESSERA_REDIS_URL": self.redis_url, "TESSERA_BROKER_URL": self.redis_url}
        extra |= self.extra_env
        return {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")} | extra

    def manage_program(self, module: str, *arguments: str) -> str:
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    def python(self, code: str) -> str:
        """What it prints, with the portal's models."""
        done = subprocess.run(
            [sys.executable, "-c", f"import django; django.setup()\n{code}"],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_web(self) -> None:
        self._start_web("web", self.port)

    def start_agent_web(self) -> None:
        """A web process for agents, as docker-compose.yml has one; those started later call it."""
        self.agent_port = self.agent_port or free_port()
        self._start_web("agent-web", self.agent_port)

    def _start_web(self, name: str, port: int) -> None:
        self._start(
            name,
            *("uvicorn", "portal.asgi:application", "--host", "127.0.0.1", "--no-proxy-headers"),
            *("--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "3"),
        )
        url = f"http://127.0.0.1:{port}"
        until(lambda: self._answers(name, url), seconds=120, what=f"the {name} process")

    def start_worker(self, *options: str, beat: bool = True) -> None:
        """Without `beat` there is no sweep: only what is rung is done."""
        clock = ("--beat", "--schedule", str(self.var / "beat-schedule")) if beat else ()
        self._start(
            "worker",
            *("celery", "-A", "portal", "worker", "--concurrency", "1", *clock),
            *("--loglevel", "info", "--without-gossip", *options),
        )

    def start_agent(self, name: str) -> None:
        home = self.var / "nodes" / name
        state = home / "driver.json"
        if not state.exists():
            home.mkdir(parents=True)
            create = ("create", "--path", str(state), "--board", self.board)
            sizes = ("--gpus", str(self.gpus), "--latency", self.latency)
            self.manage_program("agents.simdriver", *create, *sizes)
        runtime = "docker" if self.docker_url else "process"
        env = {
            "TESSERA_JOIN_TOKEN": self.seeded["join"][name],
            "TESSERA_SIMULATED_DRIVER": str(state),
        }
        if self.docker_url:
            env["DOCKER_HOST"] = self.docker_url
        self._start(
            name,
            *("agents", "run", "--var", str(home / "agent")),
            *(
                word
                for url in self.agent_addresses or (self.agent_url,)
                for word in ("--portal", url)
            ),
            *("--name", name, "--runtime", runtime),
            *self._policy_options(home),
            *self.agent_options,
            env=env,
        )

    def _policy_options(self, home: Path) -> tuple[str, ...]:
        if not self.policy:
            return ()
        path = home / "policy.toml"
        path.write_text(self.policy)
        path.chmod(0o644)
        return ("--policy", str(path))

    def kill(self, name: str) -> None:
        """kill -9 the process (and, for Celery, its pool): no goodbye of any kind."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log(self, name: str) -> str:
        return (self.var / f"{name}.log").read_text(errors="replace")

    def call(self, method: str, path: str, **options: Any) -> Any:
        """One REST call as alice; the decoded body. Any refusal is a failed assertion."""
        headers = {"Authorization": f"Token {self.seeded['token']}"}
        url = f"{self.url}/api/v1{path}"
        answer = self.http.request(method, url, headers=headers, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        is_json = "json" in answer.headers.get("content-type", "")
        return answer.json() if is_json else answer.text

    def submit(self, command: list[str], **fields: Any) -> str:
        body = {
            "project": "vision",
            "name": "sum",
            "image": "tessera-example:latest",
            "command": command,
            "device": {"mig": "1g.18gb"},
            "cpu": "100m",
            "memory": "128MiB",
            "time_limit": "10m",
            "retries": {"infrastructure": 0},
        }
        return str(self.call("POST", "/jobs", json=body | fields)["id"])

    def job(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/jobs/{job}")
        return found

    def until_status(
        self, job: str, *wanted: str, seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            seen = self.job(job)
            return seen if seen["status"] in wanted else None

        return until(reached, seconds=seconds, what=f"{job} to be {' or '.join(wanted)}")

    def until_online(self) -> None:
        def online() -> bool:
            # A node is of use once its first report is in.
            return len(self.call("GET", "/gpus")["results"]) >= self.gpus * len(self.nodes)

        until(online, what="all nodes to be online")

    def _start(self, name: str, *command: str, env: dict[str, str] | None = None) -> None:
        wrapper = self.agent_wrapper if name in self.nodes else ()
        with (self.var / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*wrapper, sys.executable, "-m", *command],
                cwd=ROOT,
                env=self.env | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _answers(self, name: str, url: str) -> bool:
        assert self.running[name].poll() is None, self.log(name)
        with contextlib.suppress(httpx.TransportError):
            return self.http.get(f"{url}/healthz").is_success
        return False


def environ(var: Path, **extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TESSERA_", "DJANGO_"))}
    own = {"TESSERA_VAR": str(var), "TESSERA_PORT": str(free_port()), "PYTHONUNBUFFERED": "1"}
    return kept | own | extra
