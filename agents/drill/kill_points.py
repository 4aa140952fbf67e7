"""Where an agent can be killed: before and after every driver call, engine call and journal write.

A kill switch counts these points and kills the agent at one of them, by an exception that no code
catches. Afterwards nothing of the agent's memory is used again.
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
    """Kills the agent. Not an Exception, so that no handler of the agent catches it."""


class KillSwitch:
    """`kill_number`: the point to kill at, counted from 1; 0 only counts."""

    def __init__(self, kill_number: int = 0) -> None:
        self.kill_number = kill_number
        self.passed = 0
        self.killed_at = ""
        self._paused_threads: set[int] = set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Counts no points of this thread, while the drill itself observes the node."""
        self._paused_threads.add(get_ident())
        try:
            yield
        finally:
            self._paused_threads.discard(get_ident())

    def is_paused(self) -> bool:
        return get_ident() in self._paused_threads

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
    """In this block, every driver call, journal write and engine call is a kill point.

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
    """In this block, every journal write is a kill point."""
    with patch.object(Journal, "_write", _guarded_write(switch)):
        yield


def _driver_symbols() -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in vars(pynvml.nvmlLib).items()
        if name.startswith("nvml") and name != "nvmlErrorString"
    }


def _guarded_write(switch: KillSwitch) -> Callable[[Journal], Any]:
    """With a third point in the middle: written, but not committed."""
    plain = Journal._write

    @contextmanager
    def write(journal: Journal) -> Iterator[Any]:
        switch.point("before a journal write")
        with plain(journal) as db:
            yield db
            switch.point("in a journal write, before its commit")
        switch.point("after a journal write")

    return write
