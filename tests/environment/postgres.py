"""A temporary PostgreSQL server on a Unix socket and a loopback port, without fsync."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.environment.debian import POSTGRES
from tests.environment.kept import REPOSITORY, kept
from tests.environment.levels import skip_without
from tests.environment.programs import Program, free_port, temporary_home

SUPERUSER = "tessera"
TEMPLATE = "tessera_migrated"
# Speed over durability: this data is worth nothing after the test.
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")
_numbers = itertools.count(1)


class PostgresServer:
    """The cluster. `kill` then `start` is a crash and a recovery; the data stays."""

    def __init__(
        self, home: Path, settings: tuple[str, ...] = (), *, with_template: bool = True
    ) -> None:
        """`settings`: more of them, each `name=value`. `with_template`: begin as a copy of the kept
        cluster, which has a migrated database."""
        self.home = home
        self.port = free_port()
        self._settings = (*FAST, *settings)
        self._bin = Path(POSTGRES.path() or "").parent
        self._owner = server_user()
        self._as_user = unprivileged(home)
        self._program: Program | None = None
        if not (home / "data").exists():
            if with_template:
                self._copy(kept(f"postgres{self._bin.parent.name}", _make_kept))
            else:
                self._make_cluster()

    def start(self) -> None:
        """Start it, or start it again on the same port."""
        settings = (f"port={self.port}", "listen_addresses=127.0.0.1", *self._settings)
        options = [word for setting in settings for word in ("-c", setting)]
        server = [str(self._bin / "postgres"), "-D", str(self.home / "data"), "-k", str(self.home)]
        self._program = Program(
            [*self._as_user, *server, *options], log=self.home / "log", environ=os.environ
        )
        self._program.wait_ready(self._answers)

    @property
    def pid(self) -> int:
        assert self._program, "it was never started"
        return self._program.process.pid

    def stop(self) -> None:
        """Break every connection and end it cleanly."""
        if self._program:
            self._program.stop(signal.SIGINT)

    def kill(self) -> None:
        """End it as a power cut would; its children notice and follow."""
        assert self._program, "it was never started"
        self._program.kill()

    def url(self, database: str = "postgres") -> str:
        """What TESSERA_DATABASE_URL takes."""
        return f"postgres://{SUPERUSER}@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, migrated: bool = False) -> str:
        """The URL of a new database, with our tables in it if asked (0.1 s)."""
        name = f"test_{next(_numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE if migrated else 'template1'}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Throw it away, whoever is still connected."""
        self._execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def make_template(self) -> None:
        """The migrated database that others are copies of."""
        self._execute(f"CREATE DATABASE {TEMPLATE}")
        self._migrate(self.url(TEMPLATE))

    def _copy(self, data: Path) -> None:
        shutil.copytree(data, self.home / "data", symlinks=True)
        if owner := self._owner:
            for path in (self.home / "data", *(self.home / "data").rglob("*")):
                os.chown(path, owner.pw_uid, owner.pw_gid)

    def _make_cluster(self) -> None:
        command = [str(self._bin / "initdb"), "--pgdata", str(self.home / "data"), "--no-sync"]
        identity = ("--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8")
        subprocess.run(
            [*self._as_user, *command, *identity, "--locale", "C"],
            check=True,
            capture_output=True,
            cwd=self.home,
        )

    def _answers(self) -> bool:
        try:
            self._execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=2) as connection:
            connection.execute(statement)

    def _migrate(self, url: str) -> None:
        environ = os.environ | {"TESSERA_DATABASE_URL": url}
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        settings = ("--settings", "portal.settings.test")
        subprocess.run([*command, *settings], check=True, env=environ, cwd=REPOSITORY)


def server_user() -> pwd.struct_passwd | None:
    """The server refuses root, so it runs as postgres, else as nobody; None: as who we are."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def unprivileged(home: Path) -> tuple[str, ...]:
    """Words before a command that has to run as the server's user, who gets the folder."""
    user = server_user()
    if user is None:
        return ()
    os.chown(home, user.pw_uid, user.pw_gid)
    return (
        "setpriv",
        *("--pdeathsig", "TERM", "--clear-groups"),
        *("--reuid", str(user.pw_uid), "--regid", str(user.pw_gid)),
    )


def _make_kept(to: Path) -> None:
    """The files of a stopped cluster that has the migrated database."""
    with temporary_home("pg") as home:
        server = PostgresServer(home, with_template=False)
        try:
            server.start()
            server.make_template()
        finally:
            server.stop()
        shutil.copytree(home / "data", to, symlinks=True)


@contextlib.contextmanager
def running_postgres(settings: tuple[str, ...] = ()) -> Iterator[PostgresServer]:
    """A cluster for as long as the block runs; for programs that are not tests too."""
    with temporary_home("pg") as home, contextlib.ExitStack() as stack:
        server = PostgresServer(home, settings)
        stack.callback(server.stop)
        server.start()
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One cluster for the session; a test that needs its own data creates a database."""
    skip_without(POSTGRES)
    with running_postgres() as server:
        yield server
