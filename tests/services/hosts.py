"""The portal on several machines, as docs/several-machines.md has it: every server is configured by
the files in deploy/, with the certificates and passwords of one test.

Used by tests of several machines and by `make bench-rolling`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.environment import debian
from tests.environment.machines import Machines, running_machines
from tests.environment.programs import Program
from tests.services.stack import ROOT, until
from tests.support.certificates import Pair, pair

DEPLOY = ROOT / "deploy"
PORTAL = "portal.example"
TLS = "/etc/tessera/tls"
NODE = "node1"
PYTHON = str(Path(sys.executable).parent)
# A page, a call and a probe each wait this long at most; a loaded machine answers late.
SECONDS = 60
# Another user's program no longer dies with us unless it is said again.
AS_POSTGRES = (
    *("setpriv", "--pdeathsig", "TERM"),
    *("--reuid=postgres", "--regid=postgres", "--clear-groups"),
)
LAST_LINES = 12
PASSWORDS = ("change-db-password", "change-counts-password", "change-broker-password")


def unit_command(service: str) -> str:
    """ExecStart of a unit in deploy/systemd."""
    text = (DEPLOY / "systemd" / f"tessera-{service}.service").read_text()
    found = re.search(r"^ExecStart=/opt/tessera/bin/(.*)$", text, re.MULTILINE)
    assert found, service
    return found[1]


@dataclass
class Hosts:
    machines: Machines
    var: Path
    """The folder of logs that web hosts share, as over NFS."""
    webs: tuple[str, ...] = ("web1", "web2")
    workers: tuple[str, ...] = ("worker1", "worker2")
    beats: tuple[str, ...] = ("beat1", "beat2")
    proxy: str = "nginx"
    authority: Pair = field(default_factory=lambda: pair("an authority"))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(60))
    passwords: dict[str, str] = field(
        default_factory=lambda: {name: secrets.token_hex(12) for name in PASSWORDS}
    )
    seeded: dict[str, Any] = field(default_factory=dict)
    running: dict[str, Program] = field(default_factory=dict)
    extra_env: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    """By how many seconds the clocks of some hosts are wrong."""

    def start(self) -> None:
        names = ("db", "redis", "proxy", *self.webs, *self.workers, *self.beats, NODE)
        self.machines.add(*names)
        self.machines.alias("proxy", PORTAL)
        for name, seconds in self.clocks.items():
            self.machines[name].set_clock(seconds)
        for name in names:
            self.machines[name].write(f"{TLS}/ca.pem", self.authority.certificate)
        self.start_database()
        self.start_redis()
        self.machines["web1"].run(
            f"{PYTHON}/python", "manage.py", "migrate", "--verbosity", "0", **self._on()
        )
        # Only those of the pages: compressing them all takes as long as everything else here.
        others = ("admin", "unfold", "drf_spectacular_sidecar", "django_htmx", "rest_framework")
        ignored = [word for folder in others for word in ("--ignore", folder)]
        collect = ("manage.py", "collectstatic", "--no-input", "--verbosity", "0", *ignored)
        self.machines["web1"].run(f"{PYTHON}/python", *collect, **self._on())
        self.seeded = self.run_program("tests.services.seed", NODE)
        services = {"web": self.webs, "worker": self.workers, "beat": self.beats}
        for service, names in services.items():
            for name in names:
                self.start_service(name, service)
        for name in self.webs:
            self.until_ready(name)
        self.start_proxy()

    def run_program(self, module: str, *words: str) -> Any:
        """What this module prints as JSON, run on a web host."""
        command = (f"{PYTHON}/python", "-m", module, *words)
        return json.loads(self.machines["web1"].run(*command, **self._on()))

    def start_database(self) -> None:
        """PostgreSQL and PgBouncer, as the user of their package."""
        machine = self.machines["db"]
        folder = Path(debian.POSTGRES.path() or "").parent
        data, password = "/run/pg", self.passwords["change-db-password"]
        as_user = AS_POSTGRES
        self._certificate("db", "/etc/postgresql", "postgres")
        self._certificate("db", "/etc/pgbouncer", "postgres")
        machine.run("install", "-d", "-o", "postgres", data, "/run/postgresql")
        initdb = (f"{folder}/initdb", "--pgdata", data, "--no-sync", "--auth", "peer")
        machine.run(*as_user, *initdb, "--encoding", "UTF8", "--locale", "C")
        # Debian's own postgresql.conf includes this folder.
        text = "include_dir 'conf.d'\nfsync = off\nunix_socket_directories = '/run/postgresql'\n"
        machine.write(f"{data}/postgresql.conf", text, owner="postgres")
        machine.write(f"{data}/conf.d/tessera.conf", self.deployed("postgresql.conf"))
        machine.write(f"{data}/pg_hba.conf", self.deployed("pg_hba.conf"), owner="postgres")
        server = machine.start("postgres", *as_user, f"{folder}/postgres", "-D", data)
        psql = (*as_user, f"{folder}/psql", "-h", "/run/postgresql", "-d", "postgres", "-c")
        server.wait_ready(lambda: _works(machine.run, *psql, "SELECT 1"))
        machine.run(*psql, f"CREATE ROLE tessera LOGIN PASSWORD '{password}'")
        machine.run(*psql, "CREATE DATABASE tessera OWNER tessera")
        users = "/etc/pgbouncer/userlist.txt"
        machine.write(users, f'"tessera" "{password}"\n', owner="postgres", mode=0o600)
        machine.write("/etc/pgbouncer/pgbouncer.ini", self.deployed("pgbouncer.ini"))
        command = (*as_user, debian.PGBOUNCER.path() or "", "/etc/pgbouncer/pgbouncer.ini")
        pooler = machine.start("pgbouncer", *command)
        pooler.wait_ready(lambda: self._listens("db", 6432))

    def start_redis(self) -> None:
        machine = self.machines["redis"]
        self._certificate("redis", "/etc/redis", "root")
        machine.write("/etc/redis/users.acl", self.deployed("redis-users.acl"), mode=0o600)
        machine.write("/etc/redis/redis.conf", self.deployed("redis.conf"))
        server = machine.start("redis", debian.REDIS.path() or "", "/etc/redis/redis.conf")
        server.wait_ready(lambda: self._listens("redis", 6379))

    def start_proxy(self) -> None:
        machine = self.machines["proxy"]
        certificate = pair(PORTAL, self.authority)
        machine.write(f"{TLS}/portal.pem", certificate.certificate)
        machine.write(f"{TLS}/portal.key", certificate.key, mode=0o600)
        if self.proxy == "nginx":
            machine.run("mkdir", "/var/log/nginx")
            machine.write("/etc/nginx/nginx.conf", self.deployed("nginx.conf"))
            command: tuple[str, ...] = (debian.NGINX.path() or "", "-g", "daemon off;")
        else:
            machine.write("/etc/caddy/Caddyfile", self.deployed("Caddyfile"))
            command = (debian.CADDY.path() or "", "run", "--config", "/etc/caddy/Caddyfile")
        home = os.environ | {"HOME": str(machine.home)}
        program = machine.start("proxy", *command, environ=home)
        program.wait_ready(self.answers)

    def start_web(self, name: str) -> None:
        self.start_service(name, "web")
        self.until_ready(name)

    def until_ready(self, web: str) -> None:
        self.running[web].wait_ready(lambda: self.is_ready(web))

    def start_service(self, name: str, service: str) -> None:
        """Start what the unit in deploy/systemd starts."""
        machine, on = self.machines[name], self._on()
        machine.run("mkdir", "-p", f"/run/tessera-{service}")
        # systemd reads the variables of its own file.
        words = unit_command(service).replace("${LISTEN}", machine.address).split()
        beats = {"TESSERA_HEARTBEAT_FILE": f"/run/tessera-{service}/heartbeat"}
        environ = on["environ"] | (beats if service != "web" else {})
        self.running[name] = machine.start(
            service, f"{PYTHON}/{words[0]}", *words[1:], environ=environ, folder=ROOT
        )

    def start_agent(self) -> None:
        machine = self.machines[NODE]
        state = machine.home / "driver.json"
        create = ("create", "--path", str(state), "--board", "H200-141GB", "--gpus", "2")
        driver = (f"{PYTHON}/python", "-m", "agents.simdriver", *create, "--latency", "off")
        machine.run(*driver, folder=ROOT)
        environ = _foreign() | {
            "TESSERA_JOIN_TOKEN": self.seeded["join"][NODE],
            "TESSERA_SIMULATED_DRIVER": str(state),
        }
        route = ("--portal", f"https://{PORTAL}", "--ca-file", f"{TLS}/ca.pem")
        home = ("--var", str(machine.home / "agent"), "--name", NODE, "--runtime", "process")
        words = (f"{PYTHON}/python", "-m", "agents", "run", *route, *home)
        self.running[NODE] = machine.start("agent", *words, environ=environ, folder=ROOT)

    def deployed(self, name: str) -> str:
        """A file of deploy/ with the passwords in it."""
        text = (DEPLOY / name).read_text()
        for placeholder, password in self.passwords.items():
            text = text.replace(placeholder, password)
        return text

    def environ(self) -> dict[str, str]:
        """deploy/portal.env, completed as its comments say."""
        words = shlex.split(self.deployed("portal.env"), comments=True)
        given = dict(word.split("=", 1) for word in words)
        own = {"TESSERA_SECRET_KEY": self.secret, "TESSERA_VAR": str(self.var)}
        return _foreign() | given | own | {"PYTHONPATH": str(ROOT)} | self.extra_env

    def client(self, **options: Any) -> httpx.Client:
        """A client on the node's network that trusts the authority. Calls go through the proxy;
        make them within `machines[NODE].network()`."""
        ca = self.machines[NODE].home / "ca.pem"
        ca.write_text(self.authority.certificate)
        context = ssl.create_default_context(cafile=str(ca))
        return httpx.Client(verify=context, trust_env=False, timeout=SECONDS, **options)

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One call of the public address, from the node's network."""
        url = f"https://{self.machines['proxy'].address}{path}"
        options["headers"] = {"Host": PORTAL} | options.get("headers", {})
        options["extensions"] = {"sni_hostname": PORTAL}
        with self.machines[NODE].network(), self.client() as client:
            return client.request(method, url, **options)

    def rest(self, method: str, path: str, **options: Any) -> Any:
        """One REST call as alice; its body. Any refusal is a failed assertion."""
        headers = {"Authorization": f"Token {self.seeded['token']}"}
        answer = self.call(method, f"/api/v1{path}", headers=headers, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    def submit(self, *command: str, **fields: Any) -> str:
        body = {
            "project": "vision",
            "name": "sum",
            "image": "tessera-example:latest",
            "command": list(command),
            "device": {"mig": "1g.18gb"},
            "cpu": "100m",
            "memory": "128MiB",
            "time_limit": "10m",
        }
        return str(self.rest("POST", "/jobs", json=body | fields)["id"])

    def until_status(self, job: str, *wanted: str, seconds: float = 120) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            seen: dict[str, Any] = self.rest("GET", f"/jobs/{job}")
            return seen if seen["status"] in wanted else None

        return until(reached, seconds=seconds, what=f"{job} to be {' or '.join(wanted)}")

    def answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.call("GET", "/healthz").is_success
        return False

    def is_ready(self, web: str) -> bool:
        """`/readyz` of one web host, asked past the proxy."""
        with contextlib.suppress(httpx.HTTPError), self.machines["proxy"].network():
            url = f"http://{self.machines[web].address}:8000/readyz"
            return httpx.get(url, trust_env=False, timeout=SECONDS).is_success
        return False

    def log(self, name: str, service: str) -> str:
        return (self.machines[name].home / f"{service}.log").read_text(errors="replace")

    @property
    def psql(self) -> Path:
        return Path(debian.POSTGRES.path() or "").parent / "psql"

    def query(self, statement: str) -> list[str]:
        """Rows of the database, as its superuser sees them."""
        options = ("-h", "/run/postgresql", "-d", "tessera", "-Atc", statement)
        return self.machines["db"].run(*AS_POSTGRES, str(self.psql), *options).splitlines()

    def _certificate(self, name: str, folder: str, owner: str) -> None:
        certificate = pair(name, self.authority)
        machine = self.machines[name]
        machine.write(f"{folder}/server.pem", certificate.certificate, owner=owner)
        machine.write(f"{folder}/server.key", certificate.key, owner=owner, mode=0o600)

    def _on(self) -> dict[str, Any]:
        return {"environ": self.environ(), "folder": ROOT}

    def _listens(self, name: str, port: int) -> bool:
        listening = self.machines[name].run("ss", "-Hltn", f"sport = :{port}")
        return bool(listening.strip())


def _foreign() -> dict[str, str]:
    """This process's variables, without those of a portal."""
    ours = ("TESSERA_", "DJANGO_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _works(run: Any, *words: str) -> bool:
    try:
        run(*words)
    except AssertionError:
        return False
    return True


@contextlib.contextmanager
def running_hosts(folder: Path, **options: Any) -> Iterator[Hosts]:
    with running_machines() as machines:
        hosts = Hosts(machines, folder, **options)
        try:
            hosts.start()
            yield hosts
        except BaseException:
            for log in sorted(machines.home.glob("*/*.log")):
                lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
                print(f"== {log.parent.name}: {log.name}", *lines, sep="\n")
            raise
