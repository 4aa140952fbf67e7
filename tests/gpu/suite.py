"""One run of the suite: close the guard, read, check, read the settings again, report."""

import os
import sys
from pathlib import Path

import pynvml
import pytest

from agents.nvml.errors import NvmlFailure
from tests.gpu import report
from tests.gpu.reading import begin
from tests.gpu.session import Session

HERE = Path(__file__).parent
PASSED, FAILED, UNUSABLE, NO_DRIVER = 0, 1, 2, 3


def run(simulated: Path | None, arguments: list[str]) -> int:
    """The exit status of `__main__`. `arguments` are pytest's."""
    try:
        begin(simulated)
    except FileNotFoundError as error:
        return _say(UNUSABLE, str(error))
    absent = no_driver()
    if absent:
        return _say(NO_DRIVER, f"{absent} Nothing was tested.")
    if simulated:
        _say(PASSED, f"{simulated} is a simulated node: this run proves the suite, and no GPU.")
    try:
        session = Session(simulated=simulated is not None)
    except NvmlFailure as failure:
        return _say(UNUSABLE, f"The driver answers, but cannot be read: {failure}.")
    status = _checks(session, arguments)
    changed = session.changed()
    status = max(status, FAILED if changed else PASSED)
    document = report.document(session.node, session.found, session.outcomes, changed, status)
    lines = [*changed, *report.lines(session.node, session.found)]
    return _say(status, *lines, f"The report is {report.write(document)}.")


def no_driver() -> str:
    """A sentence where no driver answers on this machine, or it has no GPU; else empty."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return f"No NVIDIA driver answers on this machine ({error})."
    return "" if count else "The NVIDIA driver of this machine has no GPU."


def _checks(session: Session, arguments: list[str]) -> int:
    # Plugins that happen to be installed, Django's among them, are none of this suite's business.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Options of the caller's shell are for other runs, and may name plugins that are not there.
    os.environ.pop("PYTEST_ADDOPTS", None)
    own = ["-c", str(HERE / "pytest.ini"), "--confcutdir", str(HERE), "--rootdir", str(HERE)]
    status = int(pytest.main([*own, str(HERE), *arguments], plugins=[session]))
    # pytest's own 2 to 5: interrupted, broken, misused, nothing collected.
    return status if status in (PASSED, FAILED) else UNUSABLE


def _say(status: int, *lines: str) -> int:
    sys.stdout.flush()
    for line in lines:
        sys.stderr.write(f"{line}\n")
    return status
