"""What the reading commands share: a session with the driver, and how an answer is printed."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from agents.nvml import Nvml, NvmlFailure
from agents.settings import simulated_driver
from agents.simdriver.install import install


@contextlib.contextmanager
def session() -> Iterator[Nvml]:
    """The real driver, or the simulated one where it is set. Raises NvmlFailure, OSError."""
    simulated = simulated_driver()
    if simulated is not None:
        install(simulated)
    nvml = Nvml()
    try:
        yield nvml
    finally:
        nvml.close()


def answer(read: Callable[[Nvml], dict[str, Any] | str]) -> int:
    """Print what `read` says: JSON, or text as it is. 1 and one sentence where nothing answers."""
    try:
        with session() as nvml:
            said = read(nvml)
    except (NvmlFailure, OSError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(said if isinstance(said, str) else json.dumps(said, indent=1) + "\n")
    return 0
