"""Puts a mutant's code into the functions of this process, without a change of any file.

Functions keep their identity, so names that other modules have imported are mutated as well.
"""

import ast
import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tests.mutants.mutations import Mutant, mutated_tree

# Qualified name and first line: the same in the file and in its mutant.
CodeKey = tuple[str, int]


def swap(mutant: Mutant, root: Path) -> None:
    """Mutate this process for good. Raises LookupError if the mutant's function is not found."""
    file = root / mutant.path
    source = file.read_text()
    importlib.import_module(mutant.path.removesuffix(".py").replace("/", "."))
    old = _codes(compile(source, str(file), "exec"), mutant.function)
    new = _codes(compile(mutated_tree(mutant, source), str(file), "exec"), mutant.function)
    if "from scheduler.core.compiled import" in source:
        use_python_kernels()
    functions = [
        function
        for function in gc.get_objects()
        # Not isinstance: that looks through a weak reference, also a dead one.
        if type(function) is FunctionType
        and function.__code__.co_filename == str(file)
        and _key(function.__code__) in old.keys() & new.keys()
    ]
    if not any(function.__qualname__ == mutant.function for function in functions):
        raise LookupError(f"{mutant.function} of {mutant.path} is no living function")
    for function in functions:
        function.__code__ = new[_key(function.__code__)]


def use_python_kernels() -> None:
    """Call the Python of every compiled kernel: a kernel is compiled from its code only once."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.startswith("scheduler."):
            for name, value in vars(module).items():
                if hasattr(value, "py_func"):
                    setattr(module, name, value.py_func)


def _codes(module: CodeType, function: str) -> dict[CodeKey, CodeType]:
    """The code of a function and of those inside it."""
    return {
        _key(code): code
        for code in _below(module)
        if code.co_qualname == function or code.co_qualname.startswith(f"{function}.<locals>.")
    }


def _below(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _below(constant)


def _key(code: CodeType) -> CodeKey:
    return code.co_qualname, code.co_firstlineno


def functions_of(source: str) -> dict[str, tuple[int, int]]:
    """First and last line of each function that is not inside another one."""
    found: dict[str, tuple[int, int]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + child.name] = (child.lineno, child.end_lineno or child.lineno)
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse(source), "")
    return found
