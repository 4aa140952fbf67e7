"""What is allowed in a request, but will probably fail."""

from agents.contract.message import Message
from scheduler.core.request.quantities import write_memory
from scheduler.core.request.values import FieldWarning, JobRequest

# Importing PyTorch with CUDA and making a context takes 1 to 3 GiB of host memory in a process.
FRAMEWORK_MEMORY_MIB = 2_048


def request_warnings(request: JobRequest) -> tuple[FieldWarning, ...]:
    """Amounts below what a framework needs to start."""
    least = FRAMEWORK_MEMORY_MIB * request.processes
    if request.memory_mib >= least:
        return ()
    message = Message(
        "%(memory)s of memory is less than a framework such as PyTorch needs to start: request at "
        "least %(least)s",
        memory=write_memory(request.memory_mib),
        least=write_memory(least),
    )
    return (FieldWarning("memory", message),)
