"""A PgBouncer in front of the PostgreSQL server: each transaction has a new session."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psycopg
import pytest

from tests.environment.debian import PGBOUNCER
from tests.environment.levels import skip_without
from tests.environment.postgres import SUPERUSER, PostgresServer, unprivileged
from tests.environment.programs import Program, free_port, temporary_home

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users
pool_mode = transaction
; Whatever a transaction leaves in its session is gone, not only if another client has it next.
server_reset_query = DISCARD ALL
server_reset_query_always = 1
"""


@contextlib.contextmanager
def running_pgbouncer(server: PostgresServer) -> Iterator[int]:
    """The port of a PgBouncer in transaction mode."""
    with temporary_home("pgbouncer") as home, contextlib.ExitStack() as stack:
        port = free_port()
        text = CONFIGURATION.format(server_port=server.port, port=port, home=home)
        (home / "users").write_text(f'"{SUPERUSER}" ""\n')
        (home / "pgbouncer.ini").write_text(text)
        command = [PGBOUNCER.path() or "", str(home / "pgbouncer.ini")]
        program = Program([*unprivileged(home), *command], log=home / "log", environ=os.environ)
        stack.callback(program.stop)
        program.wait_ready(lambda: _answers(server.url().replace(str(server.port), str(port))))
        yield port


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def pooled(postgres_server: PostgresServer) -> Iterator[int]:
    """The port of a PgBouncer before the session's PostgreSQL."""
    skip_without(PGBOUNCER)
    with running_pgbouncer(postgres_server) as port:
        yield port
