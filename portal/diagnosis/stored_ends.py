"""Ends whose cause is stored: what the portal or a node did, not what a program wrote. Pure."""

import errno
import os
import re
import signal
from collections.abc import Mapping

from agents.combinations.table import REFUSAL_CODES
from agents.contract.end_causes import END_CAUSES
from agents.contract.image_needs import IMAGE_UNFIT
from agents.contract.message import Message
from agents.contract.pulls import CAUSE_SENTENCES, PullCause
from portal.diagnosis.values import AttemptEnd, FailureFinding
from portal.jobs.failure_causes import Confidence, FailureCause, GangFailure

# Words of nodes that name the cause by themselves.
NODE_CODES: dict[str, FailureCause] = {
    **dict.fromkeys(sorted(END_CAUSES), FailureCause.NODE_FAULT),
    "node_lost": FailureCause.NODE_FAULT,
    "vanished": FailureCause.NODE_FAULT,
    "ended_unseen": FailureCause.NODE_FAULT,
    "fence_stale": FailureCause.NODE_FAULT,
    "workspace": FailureCause.NODE_FAULT,
    "files_absent": FailureCause.FILES_ABSENT,
    "files_unwritten": FailureCause.NODE_FAULT,
    "git_forbidden": FailureCause.NODE_REFUSAL,
    "git_too_large": FailureCause.FILES_ABSENT,
    "git_unfetched": FailureCause.FILES_ABSENT,
    "secret_missing": FailureCause.SECRET_ABSENT,
    "secret_unreadable": FailureCause.SECRET_ABSENT,
    "secrets_unkept": FailureCause.NODE_FAULT,
    "gpu_error": FailureCause.GPU_FAULT,
    "gpu_lost": FailureCause.GPU_FAULT,
    "quarantined": FailureCause.GPU_FAULT,
    "image_pull": FailureCause.IMAGE_PULL,
    "credential_unreadable": FailureCause.IMAGE_ACCESS,
    "disk": FailureCause.DISK_FULL,
    "disk_full": FailureCause.DISK_FULL,
    "docker": FailureCause.ENGINE,
    "runtime": FailureCause.ENGINE,
    "name_taken": FailureCause.ENGINE,
    "cdi_failed": FailureCause.ENGINE,
    "gang_network": FailureCause.NODE_FAULT,
    "egress": FailureCause.NODE_FAULT,
    "policy": FailureCause.NODE_REFUSAL,
    "image_differs": FailureCause.NODE_REFUSAL,
    "image_env": FailureCause.NODE_REFUSAL,
    IMAGE_UNFIT: FailureCause.DRIVER_TOO_OLD,
    "image_program": FailureCause.COMMAND_MISSING,
    "backend": FailureCause.NODE_REFUSAL,
    "launcher": FailureCause.NODE_REFUSAL,
    "processes": FailureCause.NODE_REFUSAL,
    "rdma": FailureCause.NODE_REFUSAL,
    "unreadable": FailureCause.NODE_REFUSAL,
    "volume": FailureCause.NODE_REFUSAL,
    "memory_kill": FailureCause.HOST_MEMORY,
    **dict.fromkeys(REFUSAL_CODES, FailureCause.NODE_REFUSAL),
    # Of the portal itself.
    GangFailure.NOT_READY: FailureCause.NOT_READY,
    GangFailure.NEVER_JOINED: FailureCause.RANK_ABSENT,
    GangFailure.HUNG: FailureCause.HUNG,
    GangFailure.NETWORK_CHECK: FailureCause.NETWORK_CHECK,
}
STOP_REASONS: dict[str, FailureCause] = {
    "timed_out": FailureCause.TIME_LIMIT,
    "lost": FailureCause.NODE_FAULT,
    "drained": FailureCause.DRAINED,
    "dependency": FailureCause.DEPENDENCY,
    "refused": FailureCause.REFUSED,
}
PULL_CAUSES: dict[str, FailureCause] = {
    PullCause.NOT_FOUND: FailureCause.IMAGE_MISSING,
    PullCause.NO_ACCESS: FailureCause.IMAGE_ACCESS,
    PullCause.DISK_FULL: FailureCause.DISK_FULL,
}
# What systems answer where a write finds no room: in the disk of the job, or of the node.
_WRITES = ("workspace", "files_unwritten")
_NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
# What engines answer where the command of a container cannot be started.
_EXEC = re.compile(r'exec: "([^"]{1,120})": (.{1,200})')
_NO_COMMAND = ("executable file not found", "no such file or directory")
_NOT_EXECUTABLE = ("permission denied", "exec format error", "is a directory")
SIGNALS = {128 + number.value: number.name for number in signal.Signals}


def stored_finding(end: AttemptEnd) -> FailureFinding | None:
    """None where only the log can tell."""
    if end.pull_cause:
        cause = PULL_CAUSES.get(end.pull_cause, FailureCause.IMAGE_PULL)
        return _certain(cause, end.message)
    if end.code in ("docker", "runtime") and (refusal := engine_refusal(end.message)):
        return refusal
    if end.code == "memory_kill" or (end.replicas and end.replicas[0].memory_kill):
        return memory_kill_finding()
    if end.code in _WRITES and any(words in str(end.message) for words in _NO_ROOM):
        return _certain(FailureCause.DISK_FULL, end.message)
    if end.code in NODE_CODES:
        return _certain(NODE_CODES[end.code], end.message)
    if end.stop_reason in STOP_REASONS:
        return _certain(STOP_REASONS[end.stop_reason], end.message)
    if end.status == "lost":
        return _certain(FailureCause.NODE_FAULT, end.message)
    if not end.replicas and end.status == "failed":
        # A code of a driver or of a newer node: the node's words say what it means.
        return FailureFinding(
            FailureCause.NODE_FAULT,
            Confidence.LIKELY,
            end.message or Message(FailureCause.NODE_FAULT.label),
        )
    if not end.replicas and end.stop_reason == "failed":
        return _certain(FailureCause.NOT_READY, end.message)
    return None


def memory_kill_finding() -> FailureFinding:
    """What the engine of a node says for certain."""
    sentence = Message("It used more host memory than requested, and was killed")
    return _certain(FailureCause.HOST_MEMORY, sentence)


def pull_cause_of(message: Message) -> str:
    """The `PullCause` whose sentence a node has reported; empty for any other message."""
    first = message.values.get("first")
    key = first.get("key") if isinstance(first, Mapping) else message.key
    return next((str(cause) for cause, text in CAUSE_SENTENCES.items() if text == key), "")


def engine_refusal(message: Message | None) -> FailureFinding | None:
    """The cause in what an engine answered when it should start a command."""
    command = _EXEC.search(str(message or ""))
    if command is None:
        return None
    name, words = command[1], command[2].lower()
    if any(each in words for each in _NO_COMMAND):
        sentence = Message("The image has no command %(name)s", name=name)
        return _certain(FailureCause.COMMAND_MISSING, sentence)
    if any(each in words for each in _NOT_EXECUTABLE):
        sentence = Message("The command cannot be executed")
        return _certain(FailureCause.NOT_EXECUTABLE, sentence)
    return None


def exit_finding(exit_code: int | None) -> FailureFinding:
    """What the exit code alone says."""
    signal_name = SIGNALS.get(exit_code or 0)
    match exit_code:
        case None:
            return FailureFinding(
                FailureCause.UNKNOWN, Confidence.LIKELY, Message("It did not finish")
            )
        case 126:
            sentence = Message("The command cannot be executed (exit code 126)")
            return _certain(FailureCause.NOT_EXECUTABLE, sentence)
        case 127:
            sentence = Message("The command was not found (exit code 127)")
            return _certain(FailureCause.COMMAND_MISSING, sentence)
        case 137:
            sentence = Message("It was killed (SIGKILL), most likely because host memory ran out")
            return FailureFinding(FailureCause.HOST_MEMORY, Confidence.LIKELY, sentence)
        case 143 | 130 | 129:
            sentence = Message("It was ended by %(signal)s", signal=signal_name or "")
            return _certain(FailureCause.KILLED, sentence)
        case 135:
            sentence = Message(
                "It crashed with a bus error (SIGBUS), most likely because /dev/shm is too small"
            )
            return FailureFinding(FailureCause.SHARED_MEMORY, Confidence.LIKELY, sentence)
        case 139:
            sentence = Message("It crashed with a segmentation fault (SIGSEGV)")
            return _certain(FailureCause.CRASH, sentence)
    if signal_name:
        sentence = Message("It crashed with %(signal)s", signal=signal_name)
        return _certain(FailureCause.CRASH, sentence)
    sentence = Message(
        "It ended with exit code %(code)s, and its log names no error", code=exit_code
    )
    return FailureFinding(FailureCause.EXIT_CODE, Confidence.LIKELY, sentence)


def _certain(cause: FailureCause, sentence: Message | None) -> FailureFinding:
    return FailureFinding(cause, Confidence.CERTAIN, sentence or Message(cause.label))
