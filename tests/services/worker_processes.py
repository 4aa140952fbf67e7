"""The processes of a Celery worker, so that a test can kill the one that plans."""

from contextlib import suppress
from pathlib import Path


def working_processes(worker: int, postgres_port: int) -> set[int]:
    """Those children of the worker that have a connection to the database: they do its tasks."""
    sockets = _sockets_to(postgres_port)
    return {pid for pid in child_processes(worker) if _open_files(pid) & sockets}


def child_processes(worker: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{worker}/task/{worker}/children").read_text().split()]


def _open_files(pid: int) -> set[str]:
    found = set()
    # A file may be closed, and the process may be gone, while they are listed.
    with suppress(FileNotFoundError, ProcessLookupError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.add(str(file.readlink()))
    return found


def _sockets_to(port: int) -> set[str]:
    """Of this machine, as /proc/PID/fd names them."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if int(row[2].partition(":")[2], 16) == port}
