"""docker-compose.yml as it is shipped, on an engine of its own, behind a TLS proxy, with an agent.

Everything runs in the engine's network namespace, where port 8000 is free; the test itself calls
through a Unix socket of the proxy.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import httpx
from docker.models.containers import Container

from docs.examples.build_image import build_image
from tests.docker.own_engine import OwnEngine
from tests.environment import debian
from tests.environment.base_images import ROOT, import_base_images
from tests.environment.docker_engine import OLDEST_API
from tests.environment.programs import Program
from tests.services.stack import until
from tests.support.certificates import pair

HOST = "portal.example"
NODE = "gpu01"
PROJECT = "vision"
SCALED = {"web": 2, "worker": 3}
# A busy machine is slow; nothing here is waited for without its event.
SECONDS = 300
# The operator's TLS proxy. The test itself calls through a Unix socket of it.
PROXY = """
daemon off;
user root;
pid {home}/proxy.pid;
error_log {home}/proxy-errors.log warn;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxied;
    server {{
        listen 127.0.0.1:8443 ssl;
        listen unix:{home}/proxy.sock;
        ssl_certificate {home}/proxy.crt;
        ssl_certificate_key {home}/proxy.key;
        client_max_body_size 2m;
        location / {{
            proxy_pass http://127.0.0.1:8000;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-Proto https;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}
}}
"""


class ComposeStack:
    """`build`, `up`, `enrol`; then calls, jobs and kills."""

    def __init__(self, engine: OwnEngine) -> None:
        self.engine, self.home = engine, engine.home
        self.client = docker.DockerClient(base_url=engine.base_url, version=OLDEST_API, timeout=600)
        transport = httpx.HTTPTransport(uds=f"{self.home}/proxy.sock")
        self.http = httpx.Client(transport=transport, base_url=f"http://{HOST}", timeout=60)
        self.token = ""
        self._agent: Program | None = None
        self._proxy: Program | None = None
        self._join_token = ""

    def close(self) -> None:
        for program in (self._agent, self._proxy):
            if program:
                program.stop(signal.SIGKILL)
        self.http.close()
        self.client.close()

    # -- the portal -----------------------------------------------------------------------------

    def build(self) -> None:
        import_base_images(self.client)
        self._write_env()
        self.compose("build", "web")

    def up(self, **scale: int) -> None:
        scaled = [word for name, count in scale.items() for word in ("--scale", f"{name}={count}")]
        self.compose("up", "--detach", *scaled)

    def compose(self, *arguments: str) -> str:
        """docker-compose with the file of the repository; its output."""
        program = debian.COMPOSE.path()
        assert program
        files = ("--env-file", f"{self.home}/.env", "--file", str(ROOT / "docker-compose.yml"))
        done = subprocess.run(
            [program, *files, *arguments],
            cwd=self.home,
            env={"PATH": os.environ["PATH"], "DOCKER_HOST": self.engine.base_url, "HOME": "/root"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + self.logs()
        return done.stdout

    def _write_env(self) -> None:
        """What the first lines of docker-compose.yml ask for."""
        passwords = ("DB", "REDIS", "BROKER")
        lines = [
            "COMPOSE_PROJECT_NAME=tessera",
            f"TESSERA_SECRET_KEY={secrets.token_hex(32)}",
            f"TESSERA_ALLOWED_HOSTS={HOST}",
            *(f"TESSERA_{name}_PASSWORD={secrets.token_hex(24)}" for name in passwords),
        ]
        (self.home / ".env").write_text("\n".join(lines) + "\n")

    def containers(self, service: str, *, all: bool = False) -> list[Container]:
        labels = ["com.docker.compose.project=tessera", f"com.docker.compose.service={service}"]
        found = self.client.containers.list(all=all, filters={"label": labels}, ignore_removed=True)
        return sorted(found, key=lambda container: container.name)

    def health(self, service: str) -> list[str]:
        found = self.containers(service, all=True)
        return [c.attrs["State"].get("Health", {}).get("Status", "none") for c in found]

    def until_healthy(self, **scale: int) -> None:
        wanted = {name: scale.get(name, 1) for name in SERVICES}
        seen: dict[str, list[str]] = {}

        def healthy() -> bool:
            seen.update({name: self.health(name) for name in wanted})
            return all(seen[name] == ["healthy"] * count for name, count in wanted.items())

        try:
            until(healthy, seconds=SECONDS, every=0.5)
        except AssertionError as late:
            raise AssertionError(f"{seen}\n{self.logs()}") from late

    def logs(self) -> str:
        """The last lines of each container that was started."""
        found = [c for name in ("migrate", *SERVICES) for c in self.containers(name, all=True)]
        return "\n".join(
            f"--- {c.name} {c.status}\n{c.logs(tail=25).decode(errors='replace')}" for c in found
        )

    # -- the operator ---------------------------------------------------------------------------

    def enrol(self) -> None:
        """The words of docs/operations.md: the first admin, a project, the node, its agent."""
        self._start_proxy()
        password = f"DJANGO_SUPERUSER_PASSWORD={secrets.token_hex(12)}"
        self.manage("createsuperuser", "--no-input", "--username=root", "--email=", env=password)
        self.token = self.manage("token", "root", "--scope", "admin").strip()
        self.call("POST", "/projects", json={"slug": PROJECT})
        self.call("PUT", f"/projects/{PROJECT}/members/root", json={"role": "member"})
        self._join_token = self.call("POST", "/nodes", json={"name": NODE})["join_token"]
        build_image(self.engine.base_url)
        self._make_driver()
        self.start_agent()
        until(self._has_gpus, seconds=SECONDS, what="the GPUs of the node", every=0.5)

    def manage(self, *arguments: str, env: str = "A=b") -> str:
        return self.compose("exec", "-T", "-e", env, "web", "python", "manage.py", *arguments)

    def _start_proxy(self) -> None:
        authority = pair("authority")
        served = pair("127.0.0.1", authority)
        (self.home / "authority.crt").write_text(authority.certificate)
        (self.home / "proxy.crt").write_text(served.certificate)
        (self.home / "proxy.key").write_text(served.key)
        conf = self.home / "proxy.conf"
        conf.write_text(PROXY.format(home=self.home))
        nginx = debian.NGINX.path()
        assert nginx
        command = [*self._inside, nginx, "-c", str(conf), "-e", f"{self.home}/proxy-errors.log"]
        self._proxy = Program(command, log=self.home / "proxy.log", environ=os.environ)
        self._proxy.wait_ready((self.home / "proxy.sock").exists)

    @property
    def _inside(self) -> tuple[str, ...]:
        return ("nsenter", "--target", str(self.engine.holder_pid), "--net")

    # -- the node -------------------------------------------------------------------------------

    @property
    def _state(self) -> Path:
        return self.home / "driver.json"

    def _make_driver(self) -> None:
        create = ("create", "--path", str(self._state), "--board", "H200-141GB", "--gpus", "2")
        subprocess.run(
            [sys.executable, "-m", "agents.simdriver", *create],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )

    def start_agent(self) -> None:
        """What the unit of systemd does."""
        options = ("--portal", "https://127.0.0.1:8443", "--name", NODE, "--runtime", "docker")
        trusted = ("--ca-file", str(self.home / "authority.crt"))
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._agent = Program(
            [
                *self._inside,
                *(sys.executable, "-m", "agents", "run", *options, *trusted),
                *("--var", str(self.home / "agent")),
            ],
            log=self.home / "agent.log",
            environ=kept
            | {
                "DOCKER_HOST": self.engine.base_url,
                "PYTHONPATH": str(ROOT),
                "TESSERA_JOIN_TOKEN": self._join_token,
                "TESSERA_SIMULATED_DRIVER": str(self._state),
            },
        )

    def _has_gpus(self) -> bool:
        assert self._agent and self._agent.process.poll() is None, self._agent.last_words()
        return len(self.call("GET", "/gpus")["results"]) == 2

    # -- calls and jobs -------------------------------------------------------------------------

    def call(self, method: str, path: str, **options: Any) -> Any:
        """One REST call of the admin, sent again where the portal is away for a moment, as any
        client does; what it answers is never a 500."""
        headers = {"Authorization": f"Bearer {self.token}"} | options.pop("headers", {})
        if method == "POST":
            headers["Idempotency-Key"] = secrets.token_hex(8)

        def answered() -> httpx.Response | None:
            with contextlib.suppress(httpx.TransportError):
                answer = self.http.request(method, f"/api/v1{path}", headers=headers, **options)
                assert answer.status_code != 500, answer.text + self.logs()
                # The first call with this key runs still, or was killed with its process.
                is_running = answer.status_code == 409 and "Retry-After" in answer.headers
                if answer.status_code not in (502, 503, 504) and not is_running:
                    return answer
            return None

        answer = until(answered, seconds=SECONDS, what=f"{method} {path}", every=0.2)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        is_json = "json" in answer.headers.get("content-type", "")
        return answer.json() if is_json else answer.text

    def submit(self, *command: str) -> str:
        body = {
            **{"project": PROJECT, "name": "compose", "image": "tessera-example:latest"},
            **{"command": list(command), "device": {"mig": "1g.18gb"}, "cpu": "100m"},
            **{"memory": "128MiB", "time_limit": "2h", "retries": {"infrastructure": 0}},
        }
        return str(self.call("POST", "/jobs", json=body)["id"])

    def until_status(self, job: str, *wanted: str) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def reached() -> bool:
            seen.update(self.call("GET", f"/jobs/{job}"))
            return seen["status"] in wanted

        try:
            until(reached, seconds=SECONDS, every=0.1)
        except AssertionError as late:
            raise AssertionError(f"{job}: {json.dumps(seen)}\n{self.logs()}") from late
        return seen

    def job_log(self, job: str) -> str:
        """The log as the portal keeps it, page by page. It is ASCII, so bytes are characters."""
        log = ""
        while page := self.call("GET", f"/jobs/{job}/logs", params={"offset": len(log)}):
            log += page
        return log

    def job_container(self, job: str) -> tuple[str, str]:
        """Its id and when it was started: both change if it is started again."""
        uid = self.call("GET", f"/jobs/{job}")["uid"]
        (found,) = self.client.containers.list(filters={"label": f"tessera.job={uid}"})
        return found.id, found.attrs["State"]["StartedAt"]

    # -- kills ----------------------------------------------------------------------------------

    def kill(self, service: str) -> None:
        """kill -9 one container of the service, or the agent; nothing says goodbye."""
        if service == "agent":
            assert self._agent
            self._agent.kill()
            self.start_agent()
        else:
            os.kill(self.pid(service), signal.SIGKILL)

    def pid(self, service: str) -> int:
        """The main process of its first container."""
        return int(self.containers(service)[0].attrs["State"]["Pid"])


SERVICES = ("db", "redis", "entry", "web", "agent-web", "worker", "beat")


def seconds_of(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return round(time.monotonic() - began, 1)
