"""What is allowed in a request, but will probably fail."""

import re
from collections.abc import Iterator

from agents.combinations.combination import CombinationVerdict
from agents.combinations.commands import command_traits
from agents.combinations.shape import GangShape
from agents.combinations.table import matching
from agents.contract.message import Message
from scheduler.core.model.gang_shapes import requested_shape
from scheduler.core.request.quantities import memory_words
from scheduler.core.request.values import FieldWarning, JobRequest

# Importing PyTorch with CUDA and making a context takes 1 to 3 GiB of host memory in a process.
FRAMEWORK_MEMORY_MIB = 2_048

# Of TOKENIZERS_PARALLELISM, MONKEY or KEYBOARD nobody thinks so.
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|KEY|PASSWORD|PASSWD|SECRET|CREDENTIALS?)(_|$)"
    r"|(TOKEN|APIKEY|PASSWORD|SECRET)$"
)


def request_warnings(request: JobRequest) -> tuple[FieldWarning, ...]:
    """Memory below what a framework needs to start, shared memory that does not fit in it,
    variables that are secrets by their names, and what does not go well together."""
    return (
        *_memory_warnings(request),
        *_secret_warnings(request),
        *combination_warnings(request_shape(request)),
    )


def request_shape(request: JobRequest) -> GangShape:
    return requested_shape(
        request.device,
        replicas=request.replicas,
        processes=request.processes,
        launcher=request.launcher,
        backend=request.backend,
        topology=request.topology,
        command=command_traits(request.command),
    )


def combination_warnings(shape: GangShape) -> Iterator[FieldWarning]:
    for row in matching(shape, CombinationVerdict.WARN):
        yield FieldWarning(row.field, row.sentence(shape), str(row.code))


def looks_secret(name: str) -> bool:
    """Whether a variable of this name probably has a token or a password."""
    return _SECRET_NAME.search(name.upper()) is not None


def _secret_warnings(request: JobRequest) -> Iterator[FieldWarning]:
    if names := [name for name in request.env if request.env[name] and looks_secret(name)]:
        message = Message(
            "%(names)s in env looks like a secret, which project admins read and the node keeps on "
            "disk: set it as a secret, and name it under secrets",
            names=", ".join(names),
        )
        yield FieldWarning("env", message)


def _memory_warnings(request: JobRequest) -> Iterator[FieldWarning]:
    memory, least = request.memory_mib, FRAMEWORK_MEMORY_MIB * request.processes
    if memory < least:
        message = Message(
            "%(memory)s of memory is less than a framework such as PyTorch needs to start: request "
            "at least %(least)s",
            memory=memory_words(memory),
            least=memory_words(least),
        )
        yield FieldWarning("memory", message)
    if request.shm_mib > memory:
        # Pages of /dev/shm count against the memory limit of a container.
        message = Message(
            "shared memory is part of the memory, and %(shm)s does not fit in %(memory)s: request "
            "more memory or less shared memory",
            shm=memory_words(request.shm_mib),
            memory=memory_words(memory),
        )
        yield FieldWarning("shm", message)
