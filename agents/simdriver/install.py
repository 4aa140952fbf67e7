"""Installs the simulated driver behind pynvml, only for an explicit setting."""

from pathlib import Path

import pynvml

from agents.simdriver.library import Library


def install(path: Path) -> None:
    """From now on pynvml of this process talks to the node whose state stands in `path`.

    Raises FileNotFoundError if the node was not created.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not a simulated node: python -m agents.simdriver create"
        )
    pynvml.nvmlLib = Library(path)
    pynvml._nvmlGetFunctionPointer_cache.clear()


def uninstall() -> None:
    """Back to the real library, for tests."""
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
