"""A simulated `nvidia-cuda-mps-control`, for simulated nodes and tests: run by path, like NVIDIA's.

`-d` starts the daemon of CUDA_MPS_PIPE_DIRECTORY in the background, `-f` in the foreground; without
either, commands are read on stdin and answers are printed, one item a line. The files of the pipe
directory are those of real ones. Not in NVIDIA's: `--driver PATH`, a simulated driver's state in
which servers are recorded as processes, and the commands that begin with `simulate_`, by which a
test adds clients and faults. The answers are those of driver 580 on an H200 (row 9 of `make
test-gpu LEVEL=use`): a limit that is not valid is passed over without a word of refusal. Standard
library only, but for `--driver`.
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PID_FILE, LOCK, SOCKET = "nvidia-cuda-mps-control.pid", "control_lock", "control"
START_SECONDS = 10.0
SERVER_MEMORY_MIB = 30
# What NVIDIA's daemon prints about the end of a client.
DONE, NO_SUCH_CLIENT = "0", "201"


class SimulatedMpsServer:
    """A server and what it knows of its clients. `hold`: closing it ends the server."""

    def __init__(
        self, pid: int, hold: int, uid: int, threads: float, memory: dict[str, str]
    ) -> None:
        self.pid, self.hold, self.uid = pid, hold, uid
        self.threads, self.memory = threads, dict(memory)
        self.clients: list[int] = []
        self.status = "ACTIVE"


class CommandRefused(Exception):
    """A command that is answered with a sentence, and changes nothing."""


class ControlDaemon:
    """The state of one pipe directory, and its commands by name."""

    def __init__(self, driver: Path | None) -> None:
        self.driver = driver
        self.device = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self.servers: dict[int, SimulatedMpsServer] = {}
        self.threads, self.memory = 100.0, dict[str, str]()
        self.is_over = False
        self.commands: dict[str, Callable[..., list[str]]] = {
            "get_server_list": self.get_server_list,
            "get_server_status": self.get_server_status,
            "start_server": self.start_server,
            "shutdown_server": self.shutdown_server,
            "get_client_list": self.get_client_list,
            "get_device_client_list": self.get_device_client_list,
            "terminate_client": self.terminate_client,
            "set_default_active_thread_percentage": self.set_default_threads,
            "get_default_active_thread_percentage": lambda: [str(self.threads)],
            "set_active_thread_percentage": self.set_threads,
            "get_active_thread_percentage": lambda pid: [str(self.server(pid).threads)],
            "set_default_device_pinned_mem_limit": self.set_default_memory,
            "get_default_device_pinned_mem_limit": lambda dev: [_shown(self.memory.get(dev, ""))],
            "set_device_pinned_mem_limit": self.set_memory,
            "get_device_pinned_mem_limit": lambda pid, dev: [
                _shown(self.server(pid).memory.get(dev, ""))
            ],
            "quit": self.quit,
            "simulate_client": self.simulate_client,
            "simulate_fault": self.simulate_fault,
        }

    def answer(self, line: str) -> list[str]:
        name, *words = line.split() or [""]
        if name not in self.commands:
            return [f'Unknown command "{name}"']
        try:
            return self.commands[name](*words)
        except (TypeError, ValueError):
            return [f"Invalid arguments: {line}"]
        except CommandRefused as refused:
            return [str(refused)]

    def server(self, pid: str) -> SimulatedMpsServer:
        found = self.servers.get(int(pid))
        if found is None:
            raise CommandRefused(f"Server {pid} not found")
        return found

    def get_server_list(self) -> list[str]:
        return [str(pid) for pid in self.servers]

    def get_server_status(self, pid: str) -> list[str]:
        return [self.server(pid).status]

    def start_server(self, flag: str, uid: str) -> list[str]:
        """One active user at a time: another waits until the first one's server has ended."""
        if flag != "-uid":
            raise ValueError(flag)
        if any(server.uid == int(uid) for server in self.servers.values()):
            raise CommandRefused(f"Cannot start MPS server: user {uid} has one already")
        if self.servers:
            raise CommandRefused("Cannot start MPS server: another user is active")
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(theirs)
            os.read(ours, 1)  # until the daemon lets go, or is gone itself
            os._exit(0)
        os.close(ours)
        self.servers[pid] = SimulatedMpsServer(pid, theirs, int(uid), self.threads, self.memory)
        self.update_driver(pid, is_running=True)
        return []

    def shutdown_server(self, pid: str, force: str = "") -> list[str]:
        server = self.server(pid)
        if server.clients and force != "-f":
            raise CommandRefused(f"Cannot shut down MPS server {pid}: it has clients")
        del self.servers[server.pid]
        os.close(server.hold)
        os.waitpid(server.pid, 0)
        self.update_driver(server.pid, is_running=False)
        return []

    def get_client_list(self, pid: str) -> list[str]:
        return [str(client) for client in self.server(pid).clients]

    def get_device_client_list(self, pid: str = "") -> list[str]:
        servers = [self.server(pid)] if pid else list(self.servers.values())
        return [f"{self.device} {client}" for server in servers for client in server.clients]

    def terminate_client(self, pid: str, client: str) -> list[str]:
        server = self.server(pid)
        if int(client) not in server.clients:
            return [NO_SUCH_CLIENT]
        server.clients.remove(int(client))
        return [DONE]

    def set_default_threads(self, percent: str) -> list[str]:
        self.threads = _percent(percent, self.threads)
        return [str(self.threads)]

    def set_threads(self, pid: str, percent: str) -> list[str]:
        server = self.server(pid)
        server.threads = _percent(percent, server.threads)
        return [str(server.threads)]

    def set_default_memory(self, device: str, value: str) -> list[str]:
        if _is_amount(value):
            self.memory[device] = value
        return []

    def set_memory(self, pid: str, device: str, value: str) -> list[str]:
        if _is_amount(value):
            self.server(pid).memory[device] = value
        return []

    def quit(self, flag: str = "-t", seconds: str = "0") -> list[str]:
        if flag != "-t":
            raise ValueError(flag)
        int(seconds)
        for pid in list(self.servers):
            self.shutdown_server(str(pid), "-f")
        self.is_over = True
        return []

    def simulate_client(self, pid: str, client: str) -> list[str]:
        server = self.server(pid)
        if server.status == "FAULT":
            raise CommandRefused(f"MPS server {pid} cannot take clients: it is in FAULT")
        server.clients.append(int(client))
        return []

    def simulate_fault(self, pid: str) -> list[str]:
        self.server(pid).status = "FAULT"
        return []

    def update_driver(self, pid: int, *, is_running: bool) -> None:
        """Records the server as a process of the simulated driver."""
        if self.driver is None:
            return
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from agents.simdriver.state import SimulatedProcess  # noqa: PLC0415 - only beside a simulated driver
        from agents.simdriver.store import Store  # noqa: PLC0415

        with Store(self.driver).change() as node:
            for gpu in node.gpus:
                gpu.processes = [p for p in gpu.processes if p.pid != pid]
                places: list[tuple[str, int | None, int | None]] = [(gpu.uuid, None, None)]
                places += [(c.uuid, i.id, c.id) for i in gpu.instances for c in i.compute]
                for uuid, instance, compute in places:
                    if is_running and uuid == self.device:
                        made = SimulatedProcess(pid, SERVER_MEMORY_MIB, instance, compute)
                        gpu.processes.append(made)


def _percent(text: str, before: float) -> float:
    """The new value, or the old one where the new one is not valid."""
    try:
        return float(text) if 0 < float(text) <= 100 else before
    except ValueError:
        return before


def _is_amount(text: str) -> bool:
    return text[:-1].isdigit() and text[-1] in "GM"


def _shown(amount: str) -> str:
    """In full GiB from 1 GiB on. The limit itself is not rounded."""
    mib = int(amount[:-1]) if amount.endswith("M") else 0
    return f"{mib // 1024}G" if mib >= 1024 else amount


def serve(pipe: Path, driver: Path | None) -> int:
    """Be the daemon of this pipe directory until `quit` or SIGTERM."""
    lock = (pipe / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("An instance of this daemon is already running")  # noqa: T201
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # As the kernel cuts NVIDIA's names, of this process and of the servers that it forks.
    Path("/proc/self/comm").write_text("nvidia-cuda-mps", "ascii")
    daemon = ControlDaemon(driver)
    (pipe / SOCKET).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(pipe / SOCKET))
    listening.listen()
    part = pipe / f"{PID_FILE}.part"
    part.write_text(f"{os.getpid()}\n", "ascii")
    part.replace(pipe / PID_FILE)
    try:
        while not daemon.is_over:
            caller, _ = listening.accept()
            with caller, caller.makefile("rw", encoding="utf-8") as lines:
                for line in lines:
                    answer = daemon.answer(line)
                    # A caller that has gone is no reason to end.
                    with contextlib.suppress(OSError):
                        lines.write("".join(f"{one}\n" for one in (*answer, "")))
                        lines.flush()
    finally:
        (pipe / PID_FILE).unlink(missing_ok=True)
        for server in list(daemon.servers.values()):
            daemon.shutdown_server(str(server.pid), "-f")
    return 0


def start_in_background(pipe: Path, words: list[str]) -> int:
    """Start the daemon apart from this process, and return when it listens."""
    child = subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-I", "-S", __file__, *words, "-f"],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if child.poll() is not None:
            return child.returncode
        with contextlib.suppress(OSError):
            if (pipe / PID_FILE).read_text("ascii").strip() == str(child.pid):
                return 0
        time.sleep(0.01)
    child.kill()
    return 1


def send_commands(pipe: Path) -> int:
    """Each line of stdin to the daemon, each answer to stdout."""
    calling = socket.socket(socket.AF_UNIX)
    try:
        calling.connect(str(pipe / SOCKET))
    except OSError:
        print("Cannot find MPS control daemon process")  # noqa: T201
        return 1
    with calling, calling.makefile("rw", encoding="utf-8") as lines:
        for command in sys.stdin:
            lines.write(command)
            lines.flush()
            while answer := lines.readline().strip():
                print(answer)  # noqa: T201
    return 0


def main(words: list[str]) -> int:
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))  # noqa: S108 - NVIDIA's
    rest = [word for word in words if word not in ("-d", "-f")]
    driver = Path(rest[rest.index("--driver") + 1]) if "--driver" in rest else None
    if "-d" in words:
        return start_in_background(pipe, rest)
    if "-f" in words:
        return serve(pipe, driver)
    return send_commands(pipe)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
