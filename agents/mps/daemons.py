"""Starts, adopts, limits and stops one control daemon, which outlives the agent.

A process is taken for the daemon only if its pid is in the pipe directory, it runs as the user we
chose, and it was started by the same program for the same pipe directory. No other is signalled.
"""

import logging
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from agents.host.service_manager import scope_prefix
from agents.mps.control import PID_FILE, ControlCode, ControlFailure, MpsControl
from agents.mps.grants import DaemonFolders
from agents.mps.record import DaemonRecord, save_record
from agents.nvml.compute import set_exclusive
from agents.nvml.errors import NvmlCode, NvmlFailure

EXEC_AS_USER = Path(__file__).with_name("exec_as_user.py")
START_SECONDS = 10.0
POLL_SECONDS = 0.02
END_SECONDS = 5.0
# A device that no longer exists has no mode to restore.
DEVICE_GONE = (NvmlCode.NO_SUCH_DEVICE, NvmlCode.GPU_LOST)
# Some drivers do not let MIG instances change their mode (nvml.h, nvmlDeviceSetComputeMode).
NO_COMPUTE_MODE = (NvmlCode.NOT_SUPPORTED, NvmlCode.INVALID_ARGUMENT)

log = logging.getLogger("agents.mps")


class MpsDaemon:
    """The daemon of one project on one device. Calls raise ControlFailure or NvmlFailure.

    `in_containers`: its clients run in containers, so it gets shared memory of its own."""

    def __init__(
        self,
        folders: DaemonFolders,
        record: DaemonRecord,
        program: tuple[str, ...],
        *,
        in_containers: bool,
    ) -> None:
        self.folders = folders
        self.record = record
        self.program = program
        self.in_containers = in_containers
        self.control = MpsControl(program, folders.pipe, folders.log)
        # Why its clients are at risk, until that is reported; and whether a server may be broken.
        self.fault_reason = ""
        self.is_suspect = False
        self.retry_at = 0.0
        # Replicas whose processes were disconnected, so that their end harms nobody.
        self.disconnected: frozenset[str] = frozenset()

    def save(self) -> None:
        self.folders.root.mkdir(parents=True, exist_ok=True)
        self.folders.root.chmod(0o711)
        self.folders.folder.mkdir(mode=0o711, exist_ok=True)
        self.folders.folder.chmod(0o711)
        save_record(self.folders.folder, self.record)

    def ensure_running(self, threads: int, memory_mib: int) -> None:
        """Make sure that it runs, with one server and at least these limits of a client.

        The record is written first, so that an agent that is killed here finds the daemon again."""
        raised = threads > self.record.threads or memory_mib > self.record.memory_mib
        self.record.threads = max(threads, self.record.threads)
        self.record.memory_mib = max(memory_mib, self.record.memory_mib)
        self.save()
        started = self.running_pid() is None
        if started:
            self._start()
        servers = self.control.servers()
        if raised or started or not servers:
            self.control.set_limits(self.record.threads, self.record.memory_mib)
        if not servers:
            self.control.start_server(self.record.uid)

    def running_pid(self) -> int | None:
        """The daemon's pid; None if it does not run."""
        try:
            pid = int((self.folders.pipe / PID_FILE).read_text("ascii").strip())
        except (OSError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def has_fault(self) -> bool:
        """Whether a server reports that a client's fault has stopped it."""
        return any("FAULT" in self.control.status(server) for server in self.control.servers())

    def disconnect(self, pids: Collection[int]) -> None:
        """End the connections of those clients that are among `pids`."""
        for server in self.control.servers():
            for client in self.control.clients(server):
                if client in pids:
                    self.control.terminate_client(server, client)

    def renew_servers(self) -> bool:
        """Replace servers that have a fault, once their clients are gone. Whether all are well."""
        for server in self.control.servers():
            if "FAULT" not in self.control.status(server):
                continue
            if self.control.clients(server):
                return False
            self.control.shutdown_server(server)
        if not self.control.servers():
            self.control.start_server(self.record.uid)
        return True

    def stop(self, grace_seconds: int) -> None:
        """Stop it, delete its folders and restore the device's compute mode."""
        pid = self.running_pid()
        if pid is not None:
            with suppress(ControlFailure):
                self.control.quit(grace_seconds)
            self._await_end(pid, grace_seconds)
        self._set_exclusive(on=False)
        shutil.rmtree(self.folders.shm, ignore_errors=True)
        shutil.rmtree(self.folders.folder, ignore_errors=True)

    def _start(self) -> None:
        before: tuple[str, ...] = ()
        self._make_folder(self.folders.pipe)
        self._make_folder(self.folders.log)
        if self.in_containers:
            self._make_folder(self.folders.shm)
            self._require_access()
            who, shm = str(self.record.uid), str(self.folders.shm)
            before = (sys.executable, "-I", "-S", str(EXEC_AS_USER), who, shm)
        # First: from now on the device can only be used through a server.
        self._set_exclusive(on=True)
        self._launch(before)
        until = time.monotonic() + START_SECONDS
        while self.running_pid() is None:
            if time.monotonic() > until:
                sentence = f"the MPS daemon did not come up: see {self.folders.log}"
                raise ControlFailure(ControlCode.NO_DAEMON, sentence)
            time.sleep(POLL_SECONDS)

    def _launch(self, before: tuple[str, ...]) -> None:
        """In a scope of its own, so that no end of the agent's service ends it."""
        scope = scope_prefix(f"MPS daemon of Tessera, {self.folders.key}")
        try:
            self.control.launch(self.record.device, (*scope, *before))
        except ControlFailure as failure:
            if not scope:
                raise
            # For instance without the system bus. A service that stops spares its children, too.
            log.warning("mps_without_scope", extra={"why": failure.sentence})
            self.control.launch(self.record.device, before)

    def _set_exclusive(self, *, on: bool) -> None:
        try:
            set_exclusive(self.record.device, on=on)
        except NvmlFailure as failure:
            modeless = bool(self.record.place[1]) and failure.code in NO_COMPUTE_MODE
            gone = not on and failure.code in DEVICE_GONE
            if not (modeless or gone):
                raise

    def _make_folder(self, path: Path) -> None:
        """Create the folder, or accept the one that we created.

        Anyone may plant a link of that name in /dev/shm, to make the agent hand over, and mount,
        the folder that it points to."""
        path.mkdir(mode=0o700, exist_ok=True)
        owner, ours = path.lstat().st_uid, (os.geteuid(), self.record.uid)
        if path.is_symlink() or (path == self.folders.shm and owner not in ours):
            sentence = f"{path} is not the agent's own folder: remove it"
            raise ControlFailure(ControlCode.PATH, sentence)
        path.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(path, self.record.uid, self.record.uid, follow_symlinks=False)

    def _require_access(self) -> None:
        """The daemon's user needs search permission on every folder above its own."""
        for parent in self.folders.pipe.absolute().parents:
            if self.record.uid and not parent.stat().st_mode & 0o001:
                sentence = f"uid {self.record.uid} cannot pass {parent}: chmod o+x {parent}"
                raise ControlFailure(ControlCode.PATH, sentence)

    def _await_end(self, pid: int, grace_seconds: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            seconds: float = grace_seconds + END_SECONDS
            for number in (signal.SIGTERM, signal.SIGKILL):
                if _has_ended(pidfd, seconds) or not self._is_ours(pid):
                    return
                log.warning("mps_daemon_killed", extra={"pid": pid, "signal": number.name})
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, number)
                seconds = END_SECONDS
            _has_ended(pidfd, seconds)
        finally:
            os.close(pidfd)

    def _is_ours(self, pid: int) -> bool:
        proc = Path(f"/proc/{pid}")
        mine = os.fsencode(f"CUDA_MPS_PIPE_DIRECTORY={self.folders.pipe}")
        try:
            line = os.fsdecode((proc / "cmdline").read_bytes()).split("\0")
            return (
                proc.stat().st_uid == self.record.uid
                and {Path(word).name for word in self.program} <= {Path(w).name for w in line}
                and mine in (proc / "environ").read_bytes().split(b"\0")
            )
        except OSError:
            return False


def _has_ended(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
