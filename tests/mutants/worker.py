"""A pytest process that has collected every test and waits for work.

Each piece of work runs in a fork of it, which begins with all modules imported: a mutant costs the
time of its tests and nothing else. `TESSERA_MUTANTS_FD` is a socket for `multiprocessing`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.mutants.areas import REPOSITORY, area_files
from tests.mutants.mutations import Mutant
from tests.mutants.swapping import swap

FD = "TESSERA_MUTANTS_FD"


class ParentGone(Exception):
    """Nobody waits for the result."""


GONE = (ParentGone, EOFError, BrokenPipeError)


@dataclass(frozen=True, slots=True)
class Trial:
    """Run tests against a mutant until one fails. Without a mutant: record what they cover."""

    tests: Sequence[str]
    mutant: Mutant | None = None
    cpu_seconds: int = 1_800
    wall_seconds: int = 7_200


@dataclass(slots=True, eq=False)
class Outcomes:
    """A plugin that keeps the tests that failed or were skipped."""

    failed: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        if report.skipped:
            self.skipped.add(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    # A failing example is enough: nobody reads the smallest one.
    hypothesis.settings.register_profile(
        "mutants", phases=phases, derandomize=True, database=None, deadline=None
    )
    hypothesis.settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    items = {item.nodeid: item for item in session.items}
    for path in [path for files in area_files().values() for path in files]:
        importlib.import_module(path.removesuffix(".py").replace("/", "."))
    with Connection(int(os.environ[FD])) as parent, contextlib.suppress(*GONE):
        parent.send(list(items))
        while True:
            trial: Trial = parent.recv()
            tests = [items[test] for test in trial.tests if test in items]
            parent.send(
                _forked(parent, trial, partial(_try if trial.mutant else _record, trial, tests))
            )
    return True


def _forked(parent: Connection, trial: Trial, work: Callable[[], Any]) -> dict[str, Any]:
    """The work's result in a process of its own; what it leaves running is killed."""
    reader, writer = Pipe(duplex=False)
    pid = os.fork()
    if not pid:
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (trial.cpu_seconds, trial.cpu_seconds + 5))
            result = work()
        except BaseException:
            result = {"status": "error", "error": traceback.format_exc()}
        writer.send(result)
        os._exit(0)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    writer.close()
    try:
        ready = wait([reader, parent], trial.wall_seconds)
        if reader in ready:
            received: dict[str, Any] = reader.recv()
            return received
        if parent in ready:
            raise ParentGone
        return {"status": "timeout"}
    except EOFError:
        # It died without a result: by its limit of CPU time, or the interpreter crashed.
        return {"status": "timeout"}
    finally:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        reader.close()


def _try(trial: Trial, items: list[pytest.Item]) -> dict[str, Any]:
    assert trial.mutant is not None
    try:
        swap(trial.mutant, REPOSITORY)
    except LookupError as error:
        return {"status": "error", "error": str(error)}
    outcomes = Outcomes()
    for ran, (item, following) in enumerate(_with_next(items), 1):
        _run(item, following, outcomes)
        if outcomes.failed:
            return {"status": "killed", "by": item.nodeid, "tests": ran}
    return {"status": "survived", "tests": len(items)}


def _record(trial: Trial, items: list[pytest.Item]) -> dict[str, Any]:
    """The lines of the areas' functions that each test ran, and its CPU seconds."""
    coverage = importlib.import_module("coverage")
    files = [str(REPOSITORY / path) for found in area_files().values() for path in found]
    recorder = coverage.Coverage(data_file=None, config_file=False, include=files, messages=False)
    recorder.set_option("run:disable_warnings", ["no-data-collected"])
    outcomes, seconds = Outcomes(), {}
    recorder.start()
    for item, following in _with_next(items):
        recorder.switch_context(item.nodeid)
        began = time.process_time()
        _run(item, following, outcomes)
        seconds[item.nodeid] = round(time.process_time() - began, 4)
    recorder.stop()
    data = recorder.get_data()
    lines: dict[str, dict[str, list[int]]] = {test: {} for test in seconds}
    for file in data.measured_files():
        path = str(Path(file).relative_to(REPOSITORY))
        for line, tests in data.contexts_by_lineno(file).items():
            for test in set(tests) & lines.keys():
                lines[test].setdefault(path, []).append(line)
    useful = set(seconds) - set(outcomes.failed) - outcomes.skipped
    tests = {test: {"seconds": seconds[test], "lines": lines[test]} for test in sorted(useful)}
    return {"status": "recorded", "tests": tests, "failed": sorted(set(outcomes.failed))}


def _run(item: pytest.Item, following: pytest.Item | None, outcomes: Outcomes) -> None:
    plugins = item.config.pluginmanager
    plugins.register(outcomes)
    try:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        plugins.unregister(outcomes)


def _with_next(items: list[pytest.Item]) -> list[tuple[pytest.Item, pytest.Item | None]]:
    return list(zip_longest(items, items[1:]))
