"""The plugin that the checks run with: one reading of the node for all of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gpu import guard, report
from tests.gpu.reading import read, settings
from tests.gpu.twin import twin_of


class Session:
    """Made and passed to pytest by `suite`. Read before the first check: what the driver says does
    not depend on the order of the checks.

    `node` is the reading, `found` its differences from the twin, `outcomes` what became of each
    check and why. Raises NvmlFailure where NVML does not start."""

    def __init__(self, *, simulated: bool) -> None:
        self.before = settings()
        # By way of JSON, as the twin's comes: tuples and words are compared alike.
        self.node: dict[str, Any] = json.loads(json.dumps(read(simulated)))
        self.found = report.differences(self.node, twin_of)
        self.outcomes: dict[str, dict[str, str]] = {}

    def changed(self) -> list[str]:
        """Sentences about settings that are not what they were before the first check."""
        return changed_settings(self.before, settings())

    @pytest.fixture
    def reading(self) -> dict[str, Any]:
        return self.node

    @pytest.fixture
    def differences(self) -> list[report.Difference]:
        return self.found

    @pytest.fixture(autouse=True)
    def only_reading(self) -> Iterator[None]:
        """A check that tried to change something fails, also where it caught the refusal."""
        before = list(guard.refused)
        yield
        assert guard.refused == before, f"tried to change the GPU: {guard.refused[len(before) :]}"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """`gpu` is one GPU of the reading; fixtures that ask for it count too."""
        if "gpu" in metafunc.fixturenames:
            gpus = self.node["gpus"]
            metafunc.parametrize("gpu", gpus, ids=[f"gpu{gpu['index']}" for gpu in gpus])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of a check's three phases; a pass needs no reason."""
        known = self.outcomes.setdefault(report.nodeid, {"outcome": "passed", "reason": ""})
        if report.outcome != "passed" and known["outcome"] != "failed":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else _crash(report)
            known.update(outcome=report.outcome, reason=str(reason))


def changed_settings(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A sentence for each setting of a GPU that is not what it was, by two `reading.settings`."""
    return [
        f"{uuid}: {name} changed meanwhile from {was} to {after.get(uuid, {}).get(name)}."
        for uuid, known in before.items()
        for name, was in known.items()
        if after.get(uuid, {}).get(name) != was
    ]


def _crash(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash else report.longreprtext
