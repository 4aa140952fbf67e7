"""The wheel of this checkout, and environments in which it is installed without an index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
# Of the lock files: a package with its version.
PINNED = re.compile(r"^([a-z0-9._-]+)==", re.MULTILINE)


class NoIndex(Exception):
    """There is no setuptools for a build: the index that pip is set up for does not answer."""


def build_wheel(home: Path) -> Path:
    """In the folder `home`, from a copy: a build leaves folders behind. Raises NoIndex."""
    source = home / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in ("agents", "portal", "scheduler", "templates"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(home), str(source)]
    done = subprocess.run(build, cwd="/", capture_output=True, text=True, check=False)
    if "No matching distribution found for setuptools" in done.stderr:
        raise NoIndex(done.stderr)
    assert done.returncode == 0, done.stderr
    (wheel,) = home.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Environment:
    """A virtual environment; its programs run in `work`, far from the checkout."""

    folder: Path
    work: Path

    def run(
        self, program: str, *words: str, input: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program(program)), *words],
            cwd=self.work,
            env=self.variables(**variables),
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name

    def variables(self, **variables: str) -> dict[str, str]:
        """Of this process, but for what would lead to the checkout."""
        own = ("TESSERA_", "PYTHON", "DJANGO_", "PIP_", "UV_", "VIRTUAL_ENV")
        return {k: v for k, v in os.environ.items() if not k.startswith(own)} | variables

    def imports(self, module: str) -> bool:
        return self.run("python", "-c", f"import {module}").returncode == 0


def make_environment(folder: Path, wheel: Path, extra: str) -> Environment:
    """With the wheel, and of this process's packages those that the lock file of `extra` names.
    The installer then finds every requirement of that extra met, or the test fails."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for name in PINNED.findall((ROOT / "requirements" / f"{extra}.lock").read_text()):
        _link(name, packages)
    work = folder.parent / f"{folder.name}-work"
    work.mkdir()
    python = str(folder / "bin" / "python")
    offline = (str(UV), "pip", "install", "-q", "--offline", "--no-index", "--python", python)
    wanted = f"tessera-gpu[{extra}] @ {wheel.as_uri()}"
    done = subprocess.run([*offline, wanted], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Environment(folder, work)


def _link(name: str, packages: Path) -> None:
    """A package by symbolic links; its metadata as files, since uv follows no links to it."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        # Of another platform or Python; the installer refuses if it is needed here.
        return
    for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
        source, place = str(found.locate_file(top)), packages / top
        if top.endswith(".dist-info"):
            shutil.copytree(source, place, dirs_exist_ok=True)
        elif not place.is_symlink():
            place.symlink_to(source)
