"""One run: copies the tree, starts workers, records what tests cover, tries mutants."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing import Pipe
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.mutants.areas import REPOSITORY, area_files
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.records import Records, Sources
from tests.mutants.worker import FD, Trial

EQUIVALENT = Path(__file__).parent / "equivalent.json"
# How much longer than recorded a test may take against a mutant, and in Python instead of compiled.
SLACK, PYTHON_SLACK = 4, 40
# The machine may be busy with other work.
WALL_PER_CPU_SECOND = 10
KILLED = ("killed", "timeout")
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-p",
    "tests.mutants.worker",
    "-p",
    "no:cacheprovider",
)


class MutationRun:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._ends_at = time.monotonic() + options.minutes * 60
        self._state: Path = options.state.resolve()
        self._tree = self._state / "tree"
        copy_tree(self._tree)
        self._sources = Sources(self._tree)
        self._records = Records(self._state / "records", self._sources)
        self._results = Results(self._state / "results.jsonl")
        self._workers: dict[int, Worker] = {}
        self.mutants = sample(self._population(), options.sample, options.seed)

    def _population(self) -> list[Mutant]:
        known = equivalent_mutants()
        chosen = self._options.areas.split(",")
        return [
            mutant
            for area, paths in area_files(self._tree).items()
            if area in chosen
            for path in paths
            for mutant in mutants_of(area, path, self._sources.texts[path])
            if (mutant.path, mutant.function, mutant.before, mutant.after) not in known
        ]

    def _test_files(self) -> list[str]:
        """In the order of the levels that were given, each a folder or file below tests/."""
        given = [self._tree / "tests" / level for level in self._options.levels.split(",")]
        found = [[path] if path.is_file() else sorted(path.rglob("test_*.py")) for path in given]
        return [str(file.relative_to(self._tree)) for files in found for file in files]

    def record(self) -> None:
        """Record the test files that have no record yet."""
        missing = self._records.missing(self._test_files())
        if missing:
            say(f"recording what {len(missing)} test files cover")

        def record(file: str, worker: Worker) -> None:
            tests = [test for test in worker.tests if test.partition("::")[0] == file]
            result = worker.run(Trial(tests))
            if result["status"] == "recorded":
                self._records.add(file, result)
            else:
                say(f"{file} was not recorded: {result}")

        self._in_parallel(missing, record)

    def try_all(self) -> None:
        """Try the mutants that have no result yet."""
        done = self._results.by_id
        again = ("survived", "uncovered", "error") if self._options.again else ()
        todo = [m for m in self.mutants if m.id not in done or done[m.id]["status"] in again]

        def attempt(mutant: Mutant, worker: Worker) -> None:
            began = time.monotonic()
            tests = self._records.tests_for(mutant, self._options.budget)
            result: dict[str, Any] = {"status": "uncovered"}
            if tests:
                slack = PYTHON_SLACK if self._sources.is_compiled(mutant.path) else SLACK
                cpu = 30 + int(slack * sum(map(self._records.seconds.__getitem__, tests)))
                result = worker.run(Trial(tests, mutant, cpu, cpu * WALL_PER_CPU_SECOND))
            result["seconds"] = round(time.monotonic() - began, 1)
            self._results.add(mutant, result)
            say(f"{result['status']:<9} {mutant.path}:{mutant.lines[0]} {mutant.kind}")

        self._in_parallel(todo, attempt)

    def _in_parallel(self, items: Iterable[Any], work: Callable[[Any, Worker], None]) -> None:
        queue: SimpleQueue[Any] = SimpleQueue()
        for item in items:
            queue.put(item)

        def drain(number: int) -> None:
            while time.monotonic() < self._ends_at:
                try:
                    item = queue.get_nowait()
                except Empty:
                    return
                if number not in self._workers:
                    levels, log = self._options.levels.split(","), f"worker-{number}.log"
                    self._workers[number] = Worker(self._tree, levels, self._state / log)
                work(item, self._workers[number])

        threads = [
            threading.Thread(target=drain, args=(number,))
            for number in range(self._options.processes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()

    def summary(self) -> dict[str, Any]:
        found = [
            (m, self._results.by_id[m.id]) for m in self.mutants if m.id in self._results.by_id
        ]
        status = Counter(result["status"] for _, result in found)
        killed = sum(status[word] for word in KILLED)
        areas = {
            area: dict(Counter(r["status"] for m, r in found if m.area == area))
            for area in dict.fromkeys(mutant.area for mutant in self.mutants)
        }
        return {
            "seed": self._options.seed,
            "levels": self._options.levels.split(","),
            "sampled": len(self.mutants),
            "tried": len(found),
            **{
                word: status[word]
                for word in ("killed", "timeout", "survived", "uncovered", "error")
            },
            "killed_percent": round(100 * killed / len(found), 1) if found else None,
            "areas": areas,
            "survivors": [
                {
                    "where": f"{m.path}:{m.lines[0]}",
                    "function": m.function,
                    "kind": m.kind,
                    "id": m.id,
                }
                | {"diff": m.diff, "status": result["status"], "tests": result.get("tests", 0)}
                for m, result in found
                if result["status"] not in KILLED
            ],
        }


class Worker:
    """A pytest process that waits for trials."""

    def __init__(self, tree: Path, levels: list[str], log: Path) -> None:
        self._connection, theirs = Pipe()
        self._log = log
        fd = theirs.fileno()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
        # To a file: a pipe that nobody reads is full after some ten thousand tests. Then every
        # trial waits for it until its time is up, and would count as killed.
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*PYTEST, *(f"tests/{level}" for level in levels)],
                cwd=tree,
                env=kept | {FD: str(fd)},
                pass_fds=[fd],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        theirs.close()
        self.tests = self._receive()

    def close(self) -> None:
        self._connection.close()
        self._process.wait()

    def run(self, trial: Trial) -> dict[str, Any]:
        self._connection.send(trial)
        result: dict[str, Any] = self._receive()
        return result

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except EOFError:
            self._process.wait()
            output = self._log.read_text(errors="replace")[-4000:]
            raise SystemExit(f"a worker ended:\n{output}") from None


class Results:
    """Lines of JSON, one for each trial; the last one of a mutant counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        lines = path.read_text().splitlines() if path.exists() else []
        self.by_id = {result["id"]: result for result in map(json.loads, lines)}

    def add(self, mutant: Mutant, result: dict[str, Any]) -> None:
        where = {"id": mutant.id, "where": f"{mutant.path}:{mutant.lines[0]}", "diff": mutant.diff}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(where | result) + "\n")
            self.by_id[mutant.id] = where | result


def equivalent_mutants() -> set[tuple[str, str, str, str]]:
    """Path, function, and the change: reviewed mutants that behave like the code."""
    names = ("path", "function", "before", "after")
    return {tuple(entry[name] for name in names) for entry in json.loads(EQUIVALENT.read_text())}


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """As many of each area, chosen by a hash: other mutants do not change whether one is chosen."""

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.id}".encode()).hexdigest()

    areas: dict[str, list[Mutant]] = {}
    for mutant in sorted(mutants, key=rank):
        areas.setdefault(mutant.area, []).append(mutant)
    # In turn, so that a run that ends early has some of each.
    rounds = range(max(map(len, areas.values()), default=0))
    turns = [of_area[n] for n in rounds for of_area in areas.values() if n < len(of_area)]
    return turns[:size]


def copy_tree(to: Path) -> None:
    """The working tree as it is now, so that edits do not disturb the run; with compiled kernels,
    which numba finds by the time of their source. The folder `var` stays: a migrated database."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    compiled = [
        str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("scheduler/**/*.nb[ic]")
    ]
    for old in [path for path in to.glob("*") if path.name != "var"]:
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name in [*listed, *compiled]:
        if (REPOSITORY / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, to / name)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
