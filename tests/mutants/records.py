"""What each test covers, as recorded once; and which tests to run against a mutant.

A record outlives edits of the code: lines count from the first line of their function, and of a
function that was changed since, every line counts as covered by the tests that ran it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.areas import area_files
from tests.mutants.mutations import Mutant
from tests.mutants.swapping import functions_of


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class FunctionSource:
    first: int
    last: int
    digest: str


@dataclass(slots=True)
class Sources:
    """The code of the areas as it is now."""

    root: Path
    texts: dict[str, str] = field(default_factory=dict)
    functions: dict[str, dict[str, FunctionSource]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in (path for files in area_files(self.root).values() for path in files):
            self.texts[path] = text = (self.root / path).read_text()
            lines = text.splitlines()
            self.functions[path] = {
                name: FunctionSource(first, last, digest("\n".join(lines[first - 1 : last])))
                for name, (first, last) in functions_of(text).items()
            }

    def importers(self, path: str) -> list[str]:
        """The files that import this one."""
        module = path.removesuffix(".py").replace("/", ".")
        return [other for other, text in self.texts.items() if f"from {module} import" in text]

    def is_compiled(self, path: str) -> bool:
        return "from scheduler.core.compiled import" in self.texts[path]


class Records:
    """One file in `folder` for each test file."""

    def __init__(self, folder: Path, sources: Sources) -> None:
        self._folder, self._sources = folder, sources
        folder.mkdir(parents=True, exist_ok=True)
        # By test: CPU seconds, and by (path, function) the lines or None for all of them.
        self.seconds: dict[str, float] = {}
        self._lines: dict[tuple[str, str], dict[str, set[int] | None]] = {}
        self._breadth: dict[str, int] = {}

    def missing(self, test_files: Iterable[str]) -> list[str]:
        """The test files that have no record, or were changed since."""
        return [file for file in test_files if not self._load(file)]

    def add(self, file: str, result: dict[str, Any]) -> None:
        functions: dict[str, str] = {}
        tests: dict[str, Any] = {}
        for test, recorded in result["tests"].items():
            relative: dict[str, list[int]] = {}
            for path, lines in recorded["lines"].items():
                for name, function in self._sources.functions[path].items():
                    inside = [
                        n - function.first for n in lines if function.first < n <= function.last
                    ]
                    if inside:
                        relative[f"{path}::{name}"] = sorted(inside)
                        functions[f"{path}::{name}"] = function.digest
            tests[test] = {"seconds": recorded["seconds"], "lines": relative}
        record = {"digest": self._digest(file), "functions": functions, "tests": tests}
        self._path(file).write_text(json.dumps(record | {"failed": result["failed"]}))
        self._take(record)

    def tests_for(self, mutant: Mutant, budget: float) -> list[str]:
        """The covering tests, quick and narrow ones first, for at most `budget` CPU seconds."""
        key = (mutant.path, mutant.function)
        if self._sources.is_compiled(mutant.path):
            covering = self._tests_of_files(self._sources.importers(mutant.path))
        else:
            function = self._sources.functions[mutant.path][mutant.function]
            wanted = {n - function.first for n in range(mutant.lines[0], mutant.lines[1] + 1)}
            found = self._lines.get(key, {})
            covering = {test for test, lines in found.items() if lines is None or lines & wanted}
        order = sorted(covering, key=lambda t: ((0.05 + self.seconds[t]) * self._breadth[t], t))
        chosen: list[str] = []
        spent = 0.0
        for test in order:
            spent += self.seconds[test]
            if chosen and spent > budget:
                continue
            chosen.append(test)
        return chosen

    def _tests_of_files(self, paths: list[str]) -> set[str]:
        return {test for key, tests in self._lines.items() if key[0] in paths for test in tests}

    def _load(self, file: str) -> bool:
        path = self._path(file)
        if not path.exists():
            return False
        record = json.loads(path.read_text())
        if record["digest"] != self._digest(file):
            return False
        self._take(record)
        return True

    def _take(self, record: dict[str, Any]) -> None:
        for test, recorded in record["tests"].items():
            self.seconds[test] = recorded["seconds"]
            self._breadth[test] = 1 + sum(map(len, recorded["lines"].values()))
            for key, lines in recorded["lines"].items():
                path, _, name = key.partition("::")
                now = self._sources.functions.get(path, {}).get(name)
                is_same = now is not None and now.digest == record["functions"][key]
                self._lines.setdefault((path, name), {})[test] = set(lines) if is_same else None

    def _path(self, file: str) -> Path:
        return self._folder / f"{digest(file)}.json"

    def _digest(self, file: str) -> str:
        return digest((self._sources.root / file).read_text())
