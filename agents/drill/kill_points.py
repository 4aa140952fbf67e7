"""Where an agent can be killed: before and after every driver call, engine call and journal write.

A fuse counts these points as they are passed. One that is lit ends the agent at its point: with an
exception that no code catches, after which nothing of the agent's memory is used again.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import get_ident
from typing import Any
from unittest.mock import patch

import pynvml

from agents.state.journal import Journal


class Killed(BaseException):
    """The agent's end. Not an Exception: no handler of the agent's may go on from it."""


class KillSwitch:
    """`lit`: the number of the point to end at, counted from 1; 0 only counts."""

    def __init__(self, lit: int = 0) -> None:
        self.kill_number = lit
        self.passed = 0
        self.killed_at = ""
        self._sleeper = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While somebody other than the agent looks in this thread, nothing of it is counted."""
        self._sleeper = get_ident()
        try:
            yield
        finally:
            self._sleeper = 0

    def is_paused(self) -> bool:
        return self._sleeper == get_ident()

    def point(self, where: str) -> None:
        if self.is_paused():
            return
        self.passed += 1
        if self.passed == self.kill_number:
            self.killed_at = where
            raise Killed(where)

    def around(self, where: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call with a point before and after it."""

        @wraps(call)
        def guarded(*arguments: Any, **options: Any) -> Any:
            self.point(f"before {where}")
            answer = call(*arguments, **options)
            self.point(f"after {where}")
            return answer

        return guarded


@contextmanager
def kill_points(switch: KillSwitch, engine_calls: list[tuple[Any, str]]) -> Iterator[None]:
    """While the block runs, every driver call, journal write and engine call passes the fuse.

    `engine_calls`: owner and attribute of each call by which the runtime changes its engine.
    """
    with ExitStack() as stack:
        for name, symbol in _driver_symbols().items():
            stack.enter_context(patch.object(pynvml.nvmlLib, name, switch.around(name, symbol)))
        pynvml._nvmlGetFunctionPointer_cache.clear()
        stack.callback(pynvml._nvmlGetFunctionPointer_cache.clear)
        stack.enter_context(journal_kill_points(switch))
        for owner, name in engine_calls:
            call = switch.around(name, getattr(owner, name))
            stack.enter_context(patch.object(owner, name, call))
        yield


@contextmanager
def journal_kill_points(switch: KillSwitch) -> Iterator[None]:
    """While the block runs, every journal write passes the fuse."""
    with patch.object(Journal, "_write", _fused_write(switch)):
        yield


def _driver_symbols() -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in vars(pynvml.nvmlLib).items()
        if name.startswith("nvml") and name != "nvmlErrorString"
    }


def _fused_write(fuse: KillSwitch) -> Callable[[Journal], Any]:
    """A third point in the middle: written, and not committed."""
    plain = Journal._write

    @contextmanager
    def write(journal: Journal) -> Iterator[Any]:
        fuse.point("before a journal write")
        with plain(journal) as db:
            yield db
            fuse.point("in a journal write, before its commit")
        fuse.point("after a journal write")

    return write
