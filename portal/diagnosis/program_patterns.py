"""What programs of any kind write when they fail: shells, linkers, Python, tools. Pure.

The first row that a line matches counts.
"""

import re

from portal.diagnosis.log_pattern import LogPattern
from portal.jobs.failure_causes import Confidence, FailureCause

_LIKELY = Confidence.LIKELY
_QUOTED = r"""['"](?P<name>[^'"]{1,200})['"]"""

MEMORY_PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        FailureCause.SHARED_MEMORY,
        (
            "workers are out of shared memory",
            "insufficient shared memory (shm)",
            "No space left on device: '/dev/shm",
            "unable to write to file </torch_",
            "unable to mmap",
        ),
        "The data loaders ran out of shared memory (/dev/shm)",
    ),
    LogPattern(
        FailureCause.SHARED_MEMORY,
        ("/dev/shm",),  # noqa: S108 - where the kernel keeps it
        "Shared memory (/dev/shm) is full",
        re.compile(r"No space left on device|Cannot allocate memory"),
    ),
    LogPattern(
        FailureCause.HOST_MEMORY,
        ("is killed by signal: Killed", "Memory cgroup out of memory", "oom-kill"),
        "A process was killed because host memory ran out",
        confidence=_LIKELY,
    ),
    LogPattern(
        FailureCause.HOST_MEMORY,
        ("Unable to allocate",),
        "The program could not allocate %(size)s of host memory",
        re.compile(r"Unable to allocate (?P<size>[0-9.]{1,12} [KMGTPE]iB) for an array"),
    ),
    LogPattern(
        FailureCause.HOST_MEMORY,
        (
            "DefaultCPUAllocator: can't allocate memory",
            "DefaultCPUAllocator: not enough memory",
            "java.lang.OutOfMemoryError: Java heap space",
            "JavaScript heap out of memory",
            "fatal error: runtime: out of memory",
            "std::bad_alloc",
            "virtual memory exhausted",
        ),
    ),
    LogPattern(FailureCause.HOST_MEMORY, ("MemoryError",), in_exception=True),
    LogPattern(
        FailureCause.HOST_MEMORY, ("Cannot allocate memory",), in_exception=True, confidence=_LIKELY
    ),
    LogPattern(
        FailureCause.HOST_MEMORY,
        ("exits with return code = -9", "exitcode: -9", "Signal 9 (SIGKILL) received"),
        "One of its processes was killed, most likely because host memory ran out",
        confidence=_LIKELY,
    ),
)

PROGRAM_PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        FailureCause.DISK_FULL,
        ("No space left on device", "Disk quota exceeded", "disk I/O error: No space"),
        "The disk is full",
    ),
    LogPattern(FailureCause.OPEN_FILES, ("Too many open files",), "It had too many files open"),
    LogPattern(
        FailureCause.PROCESS_LIMIT,
        ("can't start new thread", "fork: retry: Resource temporarily unavailable"),
        "It could start no more processes or threads",
    ),
    LogPattern(
        FailureCause.PROCESS_LIMIT,
        ("fork: Resource temporarily unavailable", "BlockingIOError: [Errno 11]"),
        "It could start no more processes or threads",
        confidence=_LIKELY,
    ),
    LogPattern(
        FailureCause.MISSING_MODULE,
        ("No module named",),
        "The image has no Python module %(name)s",
        re.compile(r"No module named " + _QUOTED),
        in_exception=True,
    ),
    LogPattern(
        FailureCause.MISSING_MODULE,
        (": No module named ", "Error while finding module specification"),
        "The image has no Python module %(name)s",
        re.compile(r"No module named ['\"]?(?P<name>[\w.]{1,100})"),
        exit_codes=(1,),
    ),
    LogPattern(
        FailureCause.MISSING_MODULE,
        ("cannot import name",),
        "A Python module has the wrong version for the program: it has no %(name)s",
        re.compile(r"cannot import name " + _QUOTED),
        in_exception=True,
    ),
    LogPattern(
        FailureCause.MISSING_LIBRARY,
        ("cannot open shared object file",),
        "The image has no library %(name)s",
        re.compile(r"(?P<name>[\w.+-]{1,100}\.so[\w.]{0,20}): cannot open shared object file"),
    ),
    LogPattern(
        FailureCause.MISSING_LIBRARY,
        ("version `GLIBC", "undefined symbol: "),
        "A library in the image has the wrong version for the program",
    ),
    LogPattern(
        FailureCause.COMMAND_MISSING,
        ("command not found", ": not found"),
        "The image has no command %(name)s",
        re.compile(r"(?P<name>[\w./+-]{1,120}): (?:command )?not found"),
        exit_codes=(127,),
    ),
    LogPattern(
        FailureCause.COMMAND_MISSING,
        ("No such file or directory", "executable file not found"),
        "The image has no such command",
        exit_codes=(127,),
    ),
    LogPattern(
        FailureCause.NOT_EXECUTABLE,
        ("Permission denied", "Is a directory", "Exec format error", "cannot execute"),
        "The command cannot be executed",
        exit_codes=(126,),
    ),
    LogPattern(
        FailureCause.MISSING_FILE,
        ("can't open file",),
        "There is no file %(name)s",
        re.compile(r"can't open file " + _QUOTED + r": \[Errno 2\]"),
        exit_codes=(2,),
    ),
    LogPattern(
        FailureCause.MISSING_FILE,
        ("FileNotFoundError", "NotADirectoryError"),
        "There is no file %(name)s",
        re.compile(r"(?:No such file or directory|Not a directory): " + _QUOTED),
        in_exception=True,
    ),
    LogPattern(FailureCause.MISSING_FILE, ("FileNotFoundError",), in_exception=True),
    LogPattern(
        FailureCause.PERMISSION,
        ("Permission denied", "Read-only file system", "Operation not permitted"),
        "It has no permission to use %(name)s",
        re.compile(r"(?:Permission denied|Read-only file system|not permitted): " + _QUOTED),
        in_exception=True,
    ),
    LogPattern(
        FailureCause.PERMISSION, ("PermissionError", "Permission denied"), in_exception=True
    ),
    LogPattern(
        FailureCause.PORT_IN_USE,
        ("Address already in use", "EADDRINUSE", "address already in use"),
        "Another process already uses its port",
    ),
    LogPattern(
        FailureCause.HUB_ACCESS,
        ("GatedRepoError", "Cannot access gated repo", "trying to access a gated repo"),
        "A model or data set needs an access token that the job does not have",
    ),
    LogPattern(
        FailureCause.HUB_ACCESS,
        ("RepositoryNotFoundError", "is not a local folder and is not a valid model identifier"),
        "A model or data set does not exist, or needs an access token",
    ),
    LogPattern(
        FailureCause.NETWORK,
        ("We couldn't connect to 'https://huggingface.co'", "LocalEntryNotFoundError"),
        "The program could not download a model: its node cannot reach the address",
    ),
    LogPattern(
        FailureCause.SIGN_IN,
        ("api_key not configured", "InvalidAuthenticationError", "wandb.errors.UsageError"),
        "The program needs credentials that the job does not have",
    ),
    LogPattern(
        FailureCause.SIGN_IN,
        ("401 Client Error", "403 Client Error", "HTTP Error 401", "HTTP Error 403"),
        "A server rejected the program's credentials",
        in_exception=True,
    ),
    LogPattern(
        FailureCause.NETWORK,
        (
            "Temporary failure in name resolution",
            "Name or service not known",
            "NameResolutionError",
            "Could not resolve host",
            "Network is unreachable",
            "No route to host",
            "Max retries exceeded with url",
            "CERTIFICATE_VERIFY_FAILED",
            "SSLCertVerificationError",
        ),
        "The program could not reach a server",
    ),
    LogPattern(
        FailureCause.NETWORK,
        ("ConnectionRefusedError", "ConnectError", "ConnectTimeout", "ReadTimeout", "URLError"),
        "The program could not reach a server",
        in_exception=True,
    ),
    LogPattern(
        FailureCause.NETWORK,
        ("ConnectionResetError", "Connection reset by peer", "BrokenPipeError"),
        "The other end closed a connection",
        in_exception=True,
        is_consequence=True,
        confidence=_LIKELY,
    ),
    LogPattern(
        FailureCause.ARGUMENTS,
        (": error: ",),
        "The program refused its arguments: %(words)s",
        re.compile(r": error: (?P<words>(?:unrecognized|the following|argument|invalid).{1,160})"),
        exit_codes=(2,),
    ),
    LogPattern(FailureCause.ASSERTION, ("AssertionError",), in_exception=True),
)
