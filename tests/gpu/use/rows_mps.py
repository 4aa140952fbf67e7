"""Row 9: MPS as the agent uses it, and what `docs/mps.md` lists as not tried."""

import os
import signal
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.gpu.use.clients import Client, running
from tests.gpu.use.mps_room import MpsRoom, mps_room
from tests.gpu.use.record import NotPossible, Record
from tests.gpu.use.rows_driver import opened

THREADS, MEMORY_MIB, MORE_MIB = 40, 8_192, 12_288
FIRST_SECONDS = 45.0
WORK_SECONDS = 12
RECOVERY_SECONDS = 8.0
NOBODY = 4_000_000
READ_BACK_MIB = (500, 1_500, 10_000, 12_288)
ODD_MIB = 1_800
REFUSALS = (
    "no_such_command",
    "set_default_active_thread_percentage 0",
    "set_default_active_thread_percentage 101",
    "set_default_active_thread_percentage many",
    "set_default_device_pinned_mem_limit 0 1",
    "set_default_device_pinned_mem_limit 9 1024M",
    f"get_server_status {NOBODY}",
    f"get_client_list {NOBODY}",
    f"terminate_client {NOBODY} {NOBODY}",
    f"shutdown_server {NOBODY}",
)


def mps(record: Record) -> None:
    """Two daemons, one after the other: the second loses its control daemon under a server."""
    with opened() as nvml:
        device = nvml.devices()[0].uuid
    with mps_room(record, device) as room:
        record.step("launch", room.launch)
        record.step("refusals", lambda: [room.ask(command) for command in REFUSALS])
        record.step("memory limits, read back", lambda: _memory_words(room))
        record.step("limits before a server", lambda: _limit(room))
        record.step("start_server", lambda: _start(room))
        record.step("limits of the server", lambda: _limit_server(room))
        record.step("a second daemon in the same folder", room.launch)
        record.step("a client at its limits", lambda: _at_limits(record, room))
        record.step("a client in a pid namespace", lambda: _in_namespace(record, room))
        for name in ("SIGKILL", "SIGTERM"):
            number = signal.Signals[name]
            record.step(f"two clients, one gets {name}", lambda n=number: _killed(record, room, n))
        record.step("two clients, one is terminated", lambda: _terminated(record, room))
        record.step("a limit that is no full GiB", lambda: _odd_limit(record, room))
        record.step("two clients, one faults", lambda: _faulted(record, room))
        record.step("logs", room.logs)
        record.step("quit -t 2", lambda: _quit(room))
    with mps_room(record, device) as room:
        record.step("second launch", room.launch)
        record.step("the control daemon is killed", lambda: _orphaned(record, room))
        record.step("logs of the second", room.logs)


def _limit(room: MpsRoom) -> list[dict[str, Any]]:
    return [
        room.ask(command)
        for command in (
            "get_server_list",
            "get_default_active_thread_percentage",
            f"set_default_active_thread_percentage {THREADS}",
            "get_default_active_thread_percentage",
            f"set_default_device_pinned_mem_limit 0 {MEMORY_MIB}M",
            "get_default_device_pinned_mem_limit 0",
        )
    ]


def _memory_words(room: MpsRoom) -> list[dict[str, Any]]:
    """How it prints the limit that it keeps, by which the agent can check it."""
    asked = []
    for mib in READ_BACK_MIB:
        asked.append(room.ask(f"set_default_device_pinned_mem_limit 0 {mib}M"))
        asked.append(room.ask("get_default_device_pinned_mem_limit 0"))
    return asked


def _start(room: MpsRoom) -> list[dict[str, Any]]:
    started = room.ask(f"start_server -uid {room.uid}")
    server = room.server()
    status = room.ask(f"get_server_status {server}")
    return [started, status, room.ask("ps"), {"statuses": room.statuses(3.0)}]


def _limit_server(room: MpsRoom) -> list[dict[str, Any]]:
    server = room.server()
    return [
        room.ask(command)
        for command in (
            f"get_active_thread_percentage {server}",
            f"get_device_pinned_mem_limit {server} 0",
            f"set_active_thread_percentage {server} {THREADS // 2}",
            f"set_device_pinned_mem_limit {server} 0 {MEMORY_MIB}M",
            f"get_active_thread_percentage {server}",
            f"get_device_pinned_mem_limit {server} 0",
        )
    ]


def _at_limits(record: Record, room: MpsRoom) -> dict[str, Any]:
    """It may allocate more than the limit, so that a limit that does not hold is seen."""
    with _client(record, room, "limits", str(MORE_MIB)) as client:
        return client.until_end(FIRST_SECONDS)


def _odd_limit(record: Record, room: MpsRoom) -> dict[str, Any]:
    """Whether the limit is rounded, or only the daemon's words are."""
    asked = room.ask(f"set_device_pinned_mem_limit {room.server()} 0 {ODD_MIB}M")
    with _client(record, room, "limits", str(MORE_MIB)) as client:
        words = client.until_end(FIRST_SECONDS)
    back = room.ask(f"set_device_pinned_mem_limit {room.server()} 0 {MEMORY_MIB}M")
    return {"set": asked, "client": words, "set back": back}


def _in_namespace(record: Record, room: MpsRoom) -> dict[str, Any]:
    """By which pid the daemon lists a client of a container, and whether that one ends it."""
    command = room.client_program("apart", str(WORK_SECONDS), str(room.uid))
    env = room.client_environment()
    # Only root can make the namespace; the program becomes the clients' user in it.
    with running(record, "", command=command, env=env) as client:
        began = client.next(FIRST_SECONDS)
        listed = [room.ask(f"get_client_list {room.server()}"), room.ask("ps")]
        outside = _children(client.process.pid)
        ended = [room.ask(f"terminate_client {room.server()} {pid}") for pid in outside]
        words = client.until_end(WORK_SECONDS * 2)
    return {"client": began, "outside": outside, "lists": listed, "terminate": ended,
            "ended": words}  # fmt: skip


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(word) for word in listed.split()]


def _killed(record: Record, room: MpsRoom, number: signal.Signals) -> dict[str, Any]:
    """The program has no handler of its own: both signals end it in the middle of a kernel."""
    with _working(record, room) as first, _working(record, room) as second:
        lists = _meet(room, first, second)
        os.kill(first.process.pid, number)
        statuses = room.statuses(RECOVERY_SECONDS)
        neighbour = second.until_end(WORK_SECONDS * 2)
    return {"lists": lists, "statuses": statuses, "neighbour": neighbour,
            "a client after it": _another(record, room)}  # fmt: skip


def _terminated(record: Record, room: MpsRoom) -> dict[str, Any]:
    with _working(record, room) as first, _working(record, room) as second:
        lists = _meet(room, first, second)
        terminated = room.ask(f"terminate_client {room.server()} {first.process.pid}")
        # As the agent does it: the client may still be about to learn that it was ended.
        os.kill(first.process.pid, signal.SIGKILL)
        statuses = room.statuses(RECOVERY_SECONDS)
        ended, neighbour = first.until_end(WORK_SECONDS * 2), second.until_end(WORK_SECONDS * 2)
    return {"lists": lists, "answer": terminated, "statuses": statuses, "terminated": ended,
            "neighbour": neighbour, "a client after it": _another(record, room)}  # fmt: skip


def _faulted(record: Record, room: MpsRoom) -> dict[str, Any]:
    if os.environ.get("FAULT") != "1":
        raise NotPossible("not requested: FAULT=1 lets a program of our own fault")
    with _working(record, room) as neighbour:
        neighbour.next(FIRST_SECONDS)
        with _client(record, room, "illegal") as culprit:
            statuses = room.statuses(RECOVERY_SECONDS)
            words = culprit.until_end(FIRST_SECONDS)
        survivor = neighbour.until_end(WORK_SECONDS * 2)
    return {"statuses": statuses, "culprit": words, "neighbour": survivor,
            "after both": room.statuses(RECOVERY_SECONDS),
            "a client after it": _another(record, room)}  # fmt: skip


def _orphaned(record: Record, room: MpsRoom) -> dict[str, Any]:
    """What becomes of the server, its client, a later client, and a later daemon."""
    room.ask(f"start_server -uid {room.uid}")
    server, daemon = room.server(), room.daemon()
    found: dict[str, Any] = {"server": server, "daemon": daemon}
    if record.simulated:
        os.kill(daemon, signal.SIGKILL)
        return found | {"again": _launch_again(room)}
    with _working(record, room) as client:
        found["client begins"] = client.next(FIRST_SECONDS)
        os.kill(daemon, signal.SIGKILL)
        found["answer"] = room.ask("get_server_list")
        found["processes"] = room.processes()
        found["client"] = client.until_end(WORK_SECONDS * 2)
    found["processes after the client"] = room.processes()
    return found | {"again": _launch_again(room), "a client after it": _another(record, room)}


def _launch_again(room: MpsRoom) -> dict[str, Any]:
    """What a daemon says that starts in the folder of one that was killed."""
    try:
        return room.launch()
    except NotPossible as refused:
        return {"refused": str(refused)}


def _quit(room: MpsRoom) -> dict[str, Any]:
    before = room.processes()
    quit_answer, began = room.ask("quit -t 2"), time.monotonic()
    while room.processes() and time.monotonic() - began < RECOVERY_SECONDS:
        time.sleep(0.05)
    seconds = round(time.monotonic() - began, 3)
    return {"before": before, "answer": quit_answer, "seconds": seconds, "left": room.processes(),
            "files": sorted(path.name for path in room.control.pipe.iterdir())}  # fmt: skip


def _meet(room: MpsRoom, first: Client, second: Client) -> list[dict[str, Any]]:
    """Both work; how the daemon lists them."""
    began = [first.next(FIRST_SECONDS), second.next(FIRST_SECONDS)]
    commands = (f"get_client_list {room.server()}", "get_device_client_list", "ps")
    return [*began, *map(room.ask, commands)]


def _another(record: Record, room: MpsRoom) -> dict[str, Any]:
    with _client(record, room, "work", "1") as client:
        return client.until_end(FIRST_SECONDS)


def _working(record: Record, room: MpsRoom) -> AbstractContextManager[Client]:
    return _client(record, room, "work", str(WORK_SECONDS))


def _client(record: Record, room: MpsRoom, *words: str) -> AbstractContextManager[Client]:
    user = room.uid if room.uid != os.geteuid() else None
    command = room.client_program(*words)
    return running(record, "", command=command, env=room.client_environment(), user=user)
