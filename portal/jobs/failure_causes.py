"""What makes jobs fail: a closed set of codes, each with the words of lists and filters.

Codes are stored in `Job.failure_cause` and part of REST, so they never change. What finds them is
`portal/diagnosis/`.
"""

from enum import StrEnum


class FailureCause(StrEnum):
    """The first thing that went wrong, as far as it is known."""

    # Too little was requested.
    GPU_MEMORY = "gpu_memory"
    HOST_MEMORY = "host_memory"
    SHARED_MEMORY = "shared_memory"
    DISK_FULL = "disk_full"
    TIME_LIMIT = "time_limit"
    TOO_FEW_GPUS = "too_few_gpus"
    # The image.
    IMAGE_MISSING = "image_missing"
    IMAGE_ACCESS = "image_access"
    IMAGE_PULL = "image_pull"
    # What it starts with.
    FILES_ABSENT = "files_absent"
    SECRET_ABSENT = "secret_absent"  # noqa: S105 - a code, not a secret
    # The command and what it needs.
    COMMAND_MISSING = "command_missing"
    NOT_EXECUTABLE = "not_executable"
    MISSING_MODULE = "missing_module"
    MISSING_LIBRARY = "missing_library"
    MISSING_FILE = "missing_file"
    PERMISSION = "permission"
    ARGUMENTS = "arguments"
    OPEN_FILES = "open_files"
    PROCESS_LIMIT = "process_limit"
    # The GPU as the program sees it.
    NO_GPU = "no_gpu"
    DRIVER_TOO_OLD = "driver_too_old"
    GPU_UNSUPPORTED = "gpu_unsupported"
    GPU_PROGRAM = "gpu_program"
    # Between processes and machines.
    COLLECTIVE_TIMEOUT = "collective_timeout"
    COLLECTIVE = "collective"
    PORT_IN_USE = "port_in_use"
    NETWORK = "network"
    HUB_ACCESS = "hub_access"
    SIGN_IN = "sign_in"
    # The program itself.
    ASSERTION = "assertion"
    EXCEPTION = "exception"
    CRASH = "crash"
    KILLED = "killed"
    EXIT_CODE = "exit_code"
    # What carries it out.
    NODE_FAULT = "node_fault"
    GPU_FAULT = "gpu_fault"
    ENGINE = "engine"
    NODE_REFUSAL = "node_refusal"
    NOT_READY = "not_ready"
    RANK_ABSENT = "rank_absent"
    HUNG = "hung"
    NETWORK_CHECK = "network_check"
    DRAINED = "drained"
    # It never ran.
    DEPENDENCY = "dependency"
    REFUSED = "refused"
    UNKNOWN = "unknown"

    @property
    def label(self) -> str:
        """In English; pages translate it."""
        return CAUSE_LABELS[self]


class GangFailure(StrEnum):
    """What the portal itself finds wrong with a gang: codes of `Attempt.first_failure`."""

    NOT_READY = "not_ready"
    NEVER_JOINED = "never_joined"
    HUNG = "hung"
    NETWORK_CHECK = "network_check"


class Confidence(StrEnum):
    """How sure a diagnosis is."""

    CERTAIN = "certain"
    LIKELY = "likely"


CAUSE_LABELS: dict[FailureCause, str] = {
    FailureCause.GPU_MEMORY: "Out of GPU memory",
    FailureCause.HOST_MEMORY: "Out of host memory",
    FailureCause.SHARED_MEMORY: "Shared memory too small",
    FailureCause.DISK_FULL: "Disk full",
    FailureCause.TIME_LIMIT: "Time limit reached",
    FailureCause.TOO_FEW_GPUS: "Too few GPUs",
    FailureCause.IMAGE_MISSING: "Image not found",
    FailureCause.IMAGE_ACCESS: "No access to the image",
    FailureCause.IMAGE_PULL: "Image could not be pulled",
    FailureCause.FILES_ABSENT: "Code or checkpoint not available",
    FailureCause.SECRET_ABSENT: "Secret not available",
    FailureCause.COMMAND_MISSING: "Command not found",
    FailureCause.NOT_EXECUTABLE: "Command cannot be executed",
    FailureCause.MISSING_MODULE: "Missing Python module",
    FailureCause.MISSING_LIBRARY: "Missing library",
    FailureCause.MISSING_FILE: "Missing file",
    FailureCause.PERMISSION: "Permission denied",
    FailureCause.ARGUMENTS: "Wrong arguments",
    FailureCause.OPEN_FILES: "Too many open files",
    FailureCause.PROCESS_LIMIT: "Too many processes or threads",
    FailureCause.NO_GPU: "No GPU visible",
    FailureCause.DRIVER_TOO_OLD: "GPU driver too old",
    FailureCause.GPU_UNSUPPORTED: "GPU not supported by the program",
    FailureCause.GPU_PROGRAM: "GPU error in the program",
    FailureCause.COLLECTIVE_TIMEOUT: "NCCL time-out",
    FailureCause.COLLECTIVE: "Communication between ranks failed",
    FailureCause.PORT_IN_USE: "Port in use",
    FailureCause.NETWORK: "Network not reachable",
    FailureCause.HUB_ACCESS: "No access to a model or data set",
    FailureCause.SIGN_IN: "Sign-in refused",
    FailureCause.ASSERTION: "Assertion failed",
    FailureCause.EXCEPTION: "Python exception",
    FailureCause.CRASH: "Crash",
    FailureCause.KILLED: "Killed",
    FailureCause.EXIT_CODE: "Exit code without an error message",
    FailureCause.NODE_FAULT: "Node fault",
    FailureCause.GPU_FAULT: "GPU fault",
    FailureCause.ENGINE: "Container engine refused",
    FailureCause.NODE_REFUSAL: "Refused by the node",
    FailureCause.NOT_READY: "Not ready in time",
    FailureCause.RANK_ABSENT: "A rank did not start",
    FailureCause.HUNG: "No progress",
    FailureCause.NETWORK_CHECK: "Network check failed",
    FailureCause.DRAINED: "Node drained",
    FailureCause.DEPENDENCY: "An earlier job failed",
    FailureCause.REFUSED: "Not approved",
    FailureCause.UNKNOWN: "Unknown cause",
}
