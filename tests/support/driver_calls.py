"""Counts the calls of the driver at the seam between pynvml and its library."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import pynvml


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """The calls of the block by the C symbol, of all threads."""
    calls: Counter[str] = Counter()

    def counting(name: str, symbol: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(symbol)
        def counted(*arguments: Any) -> Any:
            calls[name] += 1
            return symbol(*arguments)

        return counted

    symbols = {n: v for n, v in vars(pynvml.nvmlLib).items() if n.startswith("nvml")}
    with ExitStack() as stack:
        for name, symbol in symbols.items():
            stack.enter_context(patch.object(pynvml.nvmlLib, name, counting(name, symbol)))
        pynvml._nvmlGetFunctionPointer_cache.clear()
        stack.callback(pynvml._nvmlGetFunctionPointer_cache.clear)
        yield calls
