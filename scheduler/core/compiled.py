"""`@compiled`: a function compiled by numba, whose machine code is kept between processes.

numba's own `njit(cache=True)` refuses to define a function where it cannot write, even if all code
is there already. An image has its code in a folder that nobody can write: it is loaded from there,
and what is not there is compiled for this process alone.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

Function = TypeVar("Function", bound=Callable[..., Any])
_dispatchers: list[Any] = []


def compiled(function: Function) -> Function:
    """Decorator. The code is kept in NUMBA_CACHE_DIR, else beside the source, else in the user's
    cache folder; in none of them if none can be written."""
    dispatcher: Any = njit(function)
    kept = getattr(config, "CACHE_DIR", "")  # NUMBA_CACHE_DIR; numba makes its attributes itself
    if kept and not os.access(kept, os.W_OK):
        dispatcher._cache = ReadOnlyCache(function)  # type: ignore[no-untyped-call]
    else:
        with suppress(RuntimeError):  # numba found no folder that it can write
            dispatcher.enable_caching()
    _dispatchers.append(dispatcher)
    return cast(Function, dispatcher)


def uncached_functions() -> list[str]:
    """The functions that this process compiled itself instead of loading them."""
    return [each.py_func.__qualname__ for each in _dispatchers if each.stats.cache_misses]


class ReadOnlyLocator(UserProvidedCacheLocator):
    """Code in NUMBA_CACHE_DIR, which is not tried for writing."""

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "ReadOnlyLocator":
        return cls(py_func, py_file)


class ReadOnlyCacheImpl(CompileResultCacheImpl):
    _locator_classes = [ReadOnlyLocator]


class ReadOnlyCache(FunctionCache):
    """Loads and never saves."""

    _impl_class = ReadOnlyCacheImpl

    def save_overload(self, sig: object, data: object) -> None:
        """What is compiled here stays in this process."""
