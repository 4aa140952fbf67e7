"""Jupyter servers of replicas are asked how long their kernels have been idle. What answers is a
program of a user: nothing of it is believed unread, and none keeps the others waiting."""

import asyncio
import contextlib
import json
import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest

from agents.contract.documents import ObservedDocument, ObservedReplica, ReplicaState
from agents.contract.launcher_names import LauncherName
from agents.contract.notebooks import MAX_IDLE_MINUTES
from agents.contract.tunnel import StreamRefusal
from agents.notebooks import watch as watching
from agents.notebooks.kernels import KERNELS, STATUS, TERMINALS, idle_minutes, read_answer
from agents.notebooks.watch import NotebookWatch
from agents.runtime.base import RuntimeFailure
from agents.tunnel.link import OpenRefused
from tests.unit.agents.documents import a_replica

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


def written(minutes):
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def answers(kernels=(), terminals=(), started=90):
    rows = [{"execution_state": state, "last_activity": written(n)} for state, n in kernels]
    return {
        STATUS: {"started": written(started)},
        KERNELS: rows,
        TERMINALS: [{"last_activity": written(n)} for n in terminals],
    }


@pytest.mark.parametrize(
    ("found", "minutes"),
    [
        (answers(), 90),
        (answers([("idle", 30)]), 30),
        (answers([("idle", 30), ("idle", 12)]), 12),
        (answers([("idle", 30)], terminals=[4]), 4),
        # It computes on the CPU alone, for hours in one cell.
        (answers([("busy", 300), ("idle", 30)]), 0),
        (answers([("starting", 300)]), 0),
        # A clock that is ahead, and a time of long ago.
        (answers([("idle", -5)]), 0),
        (answers(started=10**6), MAX_IDLE_MINUTES),
        (answers([("idle", 30)]) | {TERMINALS: None}, 30),
    ],
)
def test_the_newest_activity_counts(found, minutes):
    assert idle_minutes(found, NOW) == minutes


@pytest.mark.parametrize(
    "found",
    [
        {},
        answers() | {KERNELS: {"message": "Forbidden"}},
        answers() | {STATUS: None},
        answers() | {STATUS: {"started": 7}},
        answers() | {KERNELS: [None]},
        answers() | {KERNELS: [{"last_activity": "yesterday", "execution_state": "idle"}]},
        answers() | {KERNELS: [{"execution_state": ["busy"]}]},
        answers() | {KERNELS: [{"execution_state": {}}], STATUS: []},
        answers() | {TERMINALS: [{"name": "1"}]},
    ],
)
def test_of_what_cannot_be_read_nothing_is_said(found):
    assert idle_minutes(found, NOW) is None


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 403 Forbidden\r\n\r\n[]", b"SSH-2.0-x"),
        *(b"HTTP/1.1 200 OK\r\n\r\n\xff", b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000),
    ],
)
def test_what_is_no_answer_is_none(data):
    assert read_answer(data) is None


@contextlib.contextmanager
def serve(data):
    """Its address: answers each connection with these bytes by path; None never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_sockets = []

    def run():
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            open_sockets.append(accepted)
            path = accepted.recv(4096).split(b" ")[1].decode()
            body = data.get(path)
            if body is not None:
                accepted.sendall(body)
                accepted.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        # Wakes `accept`; what is left open would be a warning in some later test.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in (listener, *open_sockets):
            each.close()


def answer(value):
    return b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n" + json.dumps(value).encode()


def running(*ids):
    rows = [ObservedReplica(id=each, job="j", state=ReplicaState.RUNNING, fence=7) for each in ids]
    return ObservedDocument(node="n-1", replicas=tuple(rows))


def notebook(identity, **fields):
    usual = {"launcher": LauncherName.JUPYTER, "command": ("jupyter", "lab"), "fence": 7}
    return a_replica(id=identity, rank=0, world=1, **usual | fields)


@pytest.fixture
def server():
    with contextlib.ExitStack() as servers:
        yield lambda data: servers.enter_context(serve(data))


def test_reports_say_it_until_the_server_says_no_more(server):
    idle = datetime.now(UTC) - timedelta(minutes=12, seconds=5)
    kernels = [{"execution_state": "idle", "last_activity": idle.isoformat()}]
    started = {"started": (idle - timedelta(hours=1)).isoformat()}
    data = {STATUS: answer(started), KERNELS: answer(kernels), TERMINALS: answer([])}
    address, asked, reports = server(data), [], []

    def connect(target):
        asked.append((target.attempt, target.rank, target.port))
        if not data:
            raise OpenRefused(StreamRefusal.PORT_CLOSED)
        return socket.create_connection(address, 5)

    rows = (notebook("r-1"), a_replica(id="r-2"), notebook("r-3"))
    watch = NotebookWatch(connect, lambda: rows)
    report = watch.tap_reports(reports.append)
    report(running("r-1", "r-2"))
    asyncio.run(watch.ask_all())
    asyncio.run(watch.ask_all())
    # Only what runs under this launcher is asked, and an unchanged answer is no new report.
    assert asked == [(7, 0, 8888)] * 6
    minutes = [[row.notebook and row.notebook.idle_minutes for row in d.replicas] for d in reports]
    assert minutes == [[None, None], [12, None]]
    # A report of the node itself keeps it.
    report(running("r-1", "r-2", "r-9"))
    assert reports[-1].replicas[0].notebook.idle_minutes == 12
    data.clear()
    asyncio.run(watch.ask_all())
    assert reports[-1] == running("r-1", "r-2", "r-9")


def test_one_that_cannot_be_asked_keeps_no_other_from_being_asked(server):
    begun = (datetime.now(UTC) - timedelta(minutes=12, seconds=5)).isoformat()
    data = {STATUS: answer({"started": begun}), KERNELS: answer([]), TERMINALS: answer([])}
    address, reports = server(data), []
    rows = (notebook("r-1", fence=6), notebook("r-2"))

    def connect(target):
        if target.attempt == 6:
            raise RuntimeFailure("docker", "Docker refused to list: 500")
        return socket.create_connection(address, 5)

    watch = NotebookWatch(connect, lambda: rows)
    watch.tap_reports(reports.append)(running("r-1", "r-2"))
    asyncio.run(watch.ask_all())
    told = [row.notebook and row.notebook.idle_minutes for row in reports[-1].replicas]
    assert told == [None, 12]


@pytest.mark.parametrize("wrong", [None, b"x" * 3_000_000, b"HTTP/1.1 500 No\r\n\r\n[]"])
def test_a_server_that_hangs_or_floods_is_given_up(server, monkeypatch, wrong):
    monkeypatch.setattr(watching, "ANSWER_SECONDS", 0.2)
    address, reports = server(dict.fromkeys((STATUS, KERNELS, TERMINALS), wrong)), []
    watch = NotebookWatch(lambda target: socket.create_connection(address, 5), lambda: rows)
    rows = (notebook("r-1"),)
    watch.tap_reports(reports.append)(running("r-1"))
    asyncio.run(watch.ask_all())
    assert reports == [running("r-1")]
