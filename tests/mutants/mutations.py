"""Mutants of a source file: each changes one expression or statement inside a function.

Left alone: docstrings, log lines, annotations, texts, `__repr__`, and code outside of functions.
A mutant is a whole changed syntax tree, so it always compiles; its text is only for readers.
"""

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
# A kind of mutation, and what stands instead of the node.
Variant = tuple[str, ast.AST]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS = {"min": "max", "max": "min", "all": "any", "any": "all"}
# The order of their arguments does not matter.
COMMUTATIVE = {"min", "max", "print"}
LOGGERS = {"log", "logger", "logging"}


@dataclass(frozen=True, slots=True)
class Mutant:
    area: str
    path: str
    lines: tuple[int, int]
    """The first line of the statement, and the last one of what changes."""
    function: str
    """The qualified name of the outermost function that contains the change."""
    kind: str
    number: int
    """Which of the file's mutants it is."""
    before: str
    after: str

    @property
    def id(self) -> str:
        parts = (self.path, self.function, self.kind, self.before, self.after, str(self.number))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def diff(self) -> str:
        return f"- {self.before}\n+ {self.after}"


def mutants_of(area: str, path: str, source: str) -> list[Mutant]:
    """All mutants of a file. Equal changes inside a function are numbered in turn."""
    return [mutant for mutant, _, _ in _numbered(area, path, ast.parse(source))]


def mutated_tree(mutant: Mutant, source: str) -> ast.Module:
    """The file's syntax tree with the mutant's change. Raises LookupError if the file has no such
    place any more."""
    tree = ast.parse(source)
    for found, old, new in _numbered(mutant.area, mutant.path, tree):
        if found.id == mutant.id:
            _Replace(old, new).visit(tree)
            return ast.fix_missing_locations(tree)
    raise LookupError(f"{mutant.path} has no {mutant.before!r} in {mutant.function}")


def _numbered(area: str, path: str, tree: ast.Module) -> Iterator[tuple[Mutant, ast.AST, ast.AST]]:
    seen: Counter[tuple[str, ...]] = Counter()
    for function, statement, kind, old, new in _changes(tree):
        key = (function, kind, _text(old), _text(new))
        last = old.test if isinstance(old, ast.If) else old
        lines = (statement.lineno, getattr(last, "end_lineno", statement.lineno))
        yield Mutant(area, path, lines, *key[:2], seen[key], *key[2:]), old, new
        seen[key] += 1


def _text(node: ast.AST) -> str:
    """On one line; of a compound statement the head only."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}:"
    return " ".join(ast.unparse(node).split())


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, str, ast.AST, ast.AST]]:
    """Function, statement, kind, node, and what stands instead of the node, as in the file."""
    for name, function in _outermost(tree, ""):
        if function.name in ("__repr__", "__str__"):
            continue
        for statement in function.body:
            for inner, node in _walk(statement, statement):
                for kind, changed in _variants(node):
                    yield name, inner, kind, node, changed


def _outermost(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _outermost(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from _outermost(child, prefix)


def _walk(node: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """The node and what is below it, each with its statement; without texts and log lines."""
    if _is_text(node) or _is_log(node):
        return
    if isinstance(node, ast.stmt):
        statement = node
    yield statement, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, statement)


def _is_text(node: ast.AST) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, ast.JoinedStr)


def _is_log(node: ast.AST) -> bool:
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name)))):
            return name in LOGGERS
    return False


def _variants(node: ast.AST) -> Iterator[Variant]:
    match node:
        case ast.Compare(ops=ops):
            for index, operator in enumerate(ops):
                yield "comparison", _with(node, ops=_put(ops, index, COMPARISONS[type(operator)]()))
        case ast.BoolOp(op=op, values=values):
            yield "boolean", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for index in range(len(values)):
                kept = [*values[:index], *values[index + 1 :]]
                yield "operand", kept[0] if len(kept) == 1 else _with(node, values=kept)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "sign", copy.deepcopy(operand)
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            yield "arithmetic", _with(node, op=ARITHMETIC[type(op)]())
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=ifs) if ifs:
            yield "filter", _with(node, ifs=ifs[1:])
    yield from _variants_of_calls(node)
    yield from _variants_of_statements(node)


def _variants_of_calls(node: ast.AST) -> Iterator[Variant]:
    match node:
        case ast.Call(func=ast.Name(name)) if name in FUNCTIONS:
            yield "function", _with(node, func=ast.Name(FUNCTIONS[name], ast.Load()))
        case ast.Call(func=ast.Name(name)) if name in COMMUTATIVE:
            return
        case ast.Call(args=[first, second, *rest]) if not _are_starred(first, second):
            yield "arguments", _with(node, args=[second, first, *rest])


def _variants_of_statements(node: ast.AST) -> Iterator[Variant]:
    match node:
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return", _with(node, value=ast.Constant(None))
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "statement", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", ast.Pass()
        case ast.Continue() | ast.Break():
            yield "statement", ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A shallow copy: the parts stay shared, which later mutants of the same tree rely on."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _put(items: list[ast.cmpop], index: int, item: ast.cmpop) -> list[ast.cmpop]:
    return [*items[:index], item, *items[index + 1 :]]


def _are_starred(*nodes: ast.AST) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
