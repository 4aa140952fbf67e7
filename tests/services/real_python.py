"""Where tests on demand find a Python with the library that they run."""

import functools
import os
import subprocess
import sys

import pytest


@functools.cache
def python_with(module: str, library: str = "") -> str:
    """`JAX_PYTHON` for jax, and so on; without it `TORCH_PYTHON`, or this Python. Skips the test if
    that has no such module. `library`: as the variable names it, if that is not the module."""
    variable = f"{(library or module).upper()}_PYTHON"
    python = os.environ.get(variable) or os.environ.get("TORCH_PYTHON") or sys.executable
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"{module} is not importable: set {variable} to a Python that has it")
    return python
