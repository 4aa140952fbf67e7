"""Talks to MPS control daemons through NVIDIA's own program, by its v2 interface.

Each command is one run of the program, which reads the command on stdin and prints the answer, one
item a line. Source: NVIDIA's MPS guide, "Legacy MPS v2 Interface". The files of a pipe directory
and the two sentences below were observed on real systems.
"""

import os
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile

PROGRAM = "nvidia-cuda-mps-control"
PID_FILE = "nvidia-cuda-mps-control.pid"
# What the program prints if no daemon listens in the pipe directory, and if one does already.
NO_DAEMON = "Cannot find MPS control daemon process"
RUNS_ALREADY = "An instance of this daemon is already running"
REFUSAL_WORDS = ("unknown command", "invalid", "error", "failed", "cannot", "not found", "no such")
TIMEOUT_SECONDS = 10.0
# sockaddr_un.sun_path is 108 bytes with its terminator; control_privileged is the longest socket.
MAX_PIPE_LENGTH = 107 - len("/control_privileged")


class ControlCode(StrEnum):
    MISSING = "mps_missing"
    NO_DAEMON = "mps_no_daemon"
    REFUSED = "mps_refused"
    TIMEOUT = "mps_timeout"
    PATH = "mps_path"


@dataclass
class ControlFailure(Exception):
    """A command that failed, and why."""

    code: ControlCode
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class MpsControl:
    """The daemon of one pipe directory. Every call raises ControlFailure."""

    # The command line of NVIDIA's program.
    program: tuple[str, ...]
    pipe: Path
    log: Path
    seconds: float = TIMEOUT_SECONDS

    def environment(self, device: str = "") -> dict[str, str]:
        """`device`: the only device visible to the daemon and its servers; commands need none."""
        env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env |= {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log),
        }
        return env | ({"CUDA_VISIBLE_DEVICES": device} if device else {})

    def launch(self, device: str, prefix: tuple[str, ...] = ()) -> None:
        """Start the daemon on `device` (a UUID), with `prefix` before the program's command line.

        A daemon that runs there already is no failure: the program never starts a second one. Its
        output goes to a temporary file, because a daemon would keep a pipe open forever."""
        if len(os.fsencode(self.pipe)) > MAX_PIPE_LENGTH:
            sentence = f"{self.pipe} is too long for a socket: name a shorter folder with --var"
            raise ControlFailure(ControlCode.PATH, sentence)
        code, words = self._run((*prefix, *self.program, "-d"), self.environment(device), "")
        if code and RUNS_ALREADY not in words:
            sentence = f"the MPS daemon does not start: {words.strip() or f'exit code {code}'}"
            raise ControlFailure(ControlCode.REFUSED, sentence)

    def send(self, command: str, extra_seconds: float = 0.0) -> list[str]:
        """The daemon's answer, as lines. `extra_seconds`: beyond the usual timeout."""
        code, words = self._run(self.program, self.environment(), f"{command}\n", extra_seconds)
        if NO_DAEMON in words:
            raise ControlFailure(ControlCode.NO_DAEMON, f"no MPS daemon listens in {self.pipe}")
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        if code or any(word in line.lower() for line in lines for word in REFUSAL_WORDS):
            sentence = f"MPS refused {command!r}: {' '.join(lines) or f'exit code {code}'}"
            raise ControlFailure(ControlCode.REFUSED, sentence)
        return lines

    def servers(self) -> list[int]:
        return _numbers(self.send("get_server_list"))

    def status(self, server: int) -> str:
        """INITIALIZING, ACTIVE or FAULT; empty if the daemon prints nothing."""
        return " ".join(self.send(f"get_server_status {server}")).upper()

    def start_server(self, uid: int) -> None:
        self.send(f"start_server -uid {uid}")

    def shutdown_server(self, server: int) -> None:
        self.send(f"shutdown_server {server}")

    def clients(self, server: int) -> list[int]:
        return _numbers(self.send(f"get_client_list {server}"))

    def device_clients(self) -> list[str]:
        """Lines of devices and the clients that enumerated them."""
        return self.send("get_device_client_list")

    def terminate_client(self, server: int, client: int) -> None:
        """End its connection; no effect if it has none. `client`: its pid as this machine counts
        it, also of a process in a container."""
        self.send(f"terminate_client {server} {client}")

    def set_limits(self, threads: int, memory_mib: int) -> None:
        """Limit each client of new servers, and new clients of running ones.

        Connected clients keep their limits. The daemon sees one device, which is its device 0."""
        self._set_threads(f"set_default_active_thread_percentage {threads}", threads)
        self.send(f"set_default_device_pinned_mem_limit 0 {memory_mib}M")
        for server in self.servers():
            self._set_threads(f"set_active_thread_percentage {server} {threads}", threads)
            self.send(f"set_device_pinned_mem_limit {server} 0 {memory_mib}M")

    def quit(self, grace_seconds: int) -> None:
        """Stop the servers and the daemon; clients have `grace_seconds` to end first."""
        self.send(f"quit -t {grace_seconds}", extra_seconds=grace_seconds)

    def _set_threads(self, command: str, threads: int) -> None:
        """A value that it does not take is no refusal to the daemon: it prints the one it keeps."""
        *_, kept = self.send(command) or [""]
        # Drivers that print something else are believed.
        if kept.replace(".", "", 1).isdecimal() and float(kept) != threads:
            sentence = f"MPS keeps {kept} % of the multiprocessors, not {threads} %"
            raise ControlFailure(ControlCode.REFUSED, sentence)

    def _run(
        self, words: tuple[str, ...], env: dict[str, str], command: str, patience: float = 0.0
    ) -> tuple[int, str]:
        """Exit code, and all that was printed."""
        seconds = self.seconds + patience
        try:
            with TemporaryFile() as out:
                done = subprocess.run(  # noqa: S603 - NVIDIA's program, and numbers of our own
                    words,
                    input=command.encode(),
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=env,
                    timeout=seconds,
                    # A daemon does not hear the signals of the agent's terminal.
                    start_new_session=True,
                    check=False,
                )
                out.seek(0)
                return done.returncode, out.read().decode("utf-8", "replace")
        except FileNotFoundError as error:
            raise ControlFailure(ControlCode.MISSING, f"{words[0]} is not installed") from error
        except subprocess.TimeoutExpired as error:
            sentence = f"the MPS daemon of {self.pipe} did not answer in {seconds:g} s"
            raise ControlFailure(ControlCode.TIMEOUT, sentence) from error
        except OSError as error:
            sentence = f"{words[0]} cannot be run: {error.strerror}"
            raise ControlFailure(ControlCode.MISSING, sentence) from error


def _numbers(lines: list[str]) -> list[int]:
    return [int(word) for line in lines for word in line.split() if word.isdigit()]
