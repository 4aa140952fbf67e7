"""`make test-gpu` on a bare machine: which Python it takes, what it installs otherwise."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.gpu import environment

PIN = re.compile(r"^([a-z0-9-]+)==\S+ \\?$")
# `py` is a module of pytest itself.
OF_PYTEST = {"pytest", "py", "iniconfig", "packaging", "pluggy", "pygments"}
# Of installed packages alone: `_virtualenv` and the like are no package's.
LOADED = """
import sys, tests.gpu.suite
found = {name.split(".")[0] for name, module in sys.modules.items()
         if "site-packages" in (getattr(module, "__file__", None) or "")}
print(*sorted(name for name in found if not name.startswith("_")))
"""


def pins(text: str) -> list[str]:
    return [found[1] for line in text.splitlines() if (found := PIN.match(line))]


@pytest.fixture(scope="module")
def wanted() -> str:
    return environment.requirements(environment.LOCK.read_text("utf-8"))


def test_what_is_installed_is_what_the_lock_file_pins_and_nothing_else(wanted):
    assert sorted(pins(wanted)) == sorted(environment.NEEDED)
    assert set(wanted.splitlines()) <= set(environment.LOCK.read_text("utf-8").splitlines())


def test_every_package_comes_with_its_hashes(wanted):
    for package in re.split(r"\n(?=\S)", wanted.strip()):
        assert "--hash=sha256:" in package


def test_whatever_the_needed_packages_need_is_among_them():
    for name in environment.NEEDED:
        for line in requires(name) or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert need.name.lower() in environment.NEEDED, f"{name} needs {need.name}"


def test_the_suite_imports_the_standard_library_pytest_and_pynvml_alone():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=environment.ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) <= {*OF_PYTEST, "pynvml"}


@pytest.mark.slow
def test_the_running_python_is_taken_where_it_will_do():
    assert environment.interpreter() == sys.executable


def test_a_python_without_the_packages_will_not_do(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    assert not environment.serves(str(bare))
    assert not environment.serves(str(tmp_path / "nobody"))


@pytest.mark.slow
def test_where_pip_reaches_nothing_it_is_told_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(environment.Missing, match="pip could not install") as missing:
        environment.make(tmp_path / "venv")
    assert "pytest and nvidia-ml-py, then run it again" in str(missing.value)
    assert Path(tmp_path / "venv" / "bin" / "python").exists()


def test_a_python_that_makes_no_environments_ends_with_one_sentence(tmp_path):
    """Where no environment can be made: status 2, which is not that of a missing driver."""
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(
        f'#!/bin/sh\n[ "$1" = -m ] && [ "$2" = venv ] && exit 1\nexec {sys.executable} "$@"\n'
    )
    bare.chmod(0o755)
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from tests.gpu import environment as e\n"
        "e.serves = lambda python: False\n"
        f"e._new_enough = lambda: {str(bare)!r}\n"
        "from tests.gpu.__main__ import main; sys.exit(main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=environment.ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "venv fails" in done.stderr and "Traceback" not in done.stderr
