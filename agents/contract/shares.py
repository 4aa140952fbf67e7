"""Whether one MPS share is large enough for its processes. Pure.

MPS limits clients, not replicas: a share's percentage and memory are divided by its processes, and
both are whole numbers of at least 1 (NVIDIA's MPS guide, `set_default_active_thread_percentage` and
`set_default_device_pinned_mem_limit`).
"""

from agents.contract.message import NO_MESSAGE, Message


def too_few_threads(threads: int, processes: int) -> Message:
    """Why `threads` percent of the SMs are too few for `processes` processes; empty if not."""
    if threads >= processes:
        return NO_MESSAGE
    return Message(
        "%(threads)s %% of the SMs is less than 1 %% for each of %(n)s processes",
        threads=threads,
        n=processes,
    )


def too_little_memory(memory_mib: int, processes: int) -> Message:
    """Why `memory_mib` MiB are too little for `processes` processes; empty if not."""
    if memory_mib >= processes:
        return NO_MESSAGE
    return Message("a share needs at least 1 MiB of memory for each process")
