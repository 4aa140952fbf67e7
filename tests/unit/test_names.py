"""Public names are nouns and verbs of the field, one meaning each; every package introduces itself.

docs/glossary.md has the words, docs/house.md the packages. A name is public when neither it nor
anything around it begins with an underscore.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "docs" / "house.md"
TOP = ("agents", "portal", "scheduler")

# Never a part of a public name: verbs of telling and seeing, people and metaphors.
BANNED_PARTS = frozenset(
    "told asked said foretell foretold foresee foreseen lately newcomer".split()  # noqa: SIM905
    + "whoever somebody nobody".split()  # noqa: SIM905
)
# Never a public name by itself, nor its last part: a word that has lost its noun.
BANNED_ENDS = frozenset(
    "found given here there kept seen look looked piece who whose those these".split()  # noqa: SIM905
    + "some most least by because past quiet took standing wanted known called".split()  # noqa: SIM905
    + "made other instead many much thing".split()  # noqa: SIM905
)
# Bad for a module, class or function, good for a field: what is used, what is kept warm.
BANNED_ALONE = frozenset({"used", "warm"})
# Names that others chose or that are stored, and one idiom.
EXEMPT = {
    "NOT_FOUND": "a code of NVML and of HTTP",
    "other": "a wire key of agents.contract",
    "group_by": "SQL's term",
}
# Public classes of one name with one meaning.
SHARED_CLASSES = {"Command": "django.core.management asks for it"}
# Packages of fewer modules are introduced by docs/house.md alone.
README_FROM = 3
WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:py|md|html|json|css|js|po)|[\w./-]+/)`")


def is_banned(name: str) -> bool:
    words = [word.lower() for word in WORDS.findall(name)]
    if not words or name in EXEMPT:
        return False
    return bool(BANNED_PARTS & set(words)) or words[-1] in BANNED_ENDS


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8")))
        for top in TOP
        for path in sorted((ROOT / top).rglob("*.py"))
        if "migrations" not in path.parts
    ]


def public(body: list[ast.stmt], where: str) -> Iterator[tuple[str, str]]:
    """Classes, functions, arguments, fields and constants. Fields of a serializer are the JSON of
    REST, which keeps its names."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield where, node.name
            if not node.name.endswith("Serializer"):
                yield from public(node.body, f"{where}:{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_"):
                yield where, node.name
                yield from _arguments(node, where)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield where, node.target.id
        elif isinstance(node, ast.Assign):
            yield from ((where, name.id) for name in node.targets if isinstance(name, ast.Name))


def _arguments(
    node: ast.FunctionDef | ast.AsyncFunctionDef, where: str
) -> Iterator[tuple[str, str]]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    yield from ((f"{where}:{node.name}", argument.arg) for argument in every)


def public_classes() -> Iterator[tuple[str, str]]:
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def module_name(path: str) -> str:
    return Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem


def packages() -> list[Path]:
    found = [init.parent for top in TOP for init in (ROOT / top).rglob("__init__.py")]
    return sorted(p for p in found if not {"migrations", "management"} & set(p.parts))


def own_modules(package: Path) -> list[Path]:
    return [path for path in package.glob("*.py") if path.name != "__init__.py"]


def test_the_search_sees_names_and_tells_bad_ones():
    names = {name for path, tree in modules() for _, name in public(tree.body, path)}
    assert {"Job", "plan", "snapshot", "job_submit", "memory_mib"} <= names
    assert all(map(is_banned, ("StartForetold", "asked_for", "found", "limit_by")))
    assert not any(map(is_banned, ("is_known_board", "whole_gpu", "founder")))


def test_no_public_name_is_a_word_without_its_noun():
    wrong = [
        f"{where}: {name}"
        for path, tree in modules()
        for where, name in public(tree.body, path)
        if not name.startswith("_") and is_banned(name)
    ]
    wrong += [path for path, _ in modules() if is_banned(module_name(path))]
    assert wrong == []


def test_no_module_class_or_function_is_an_adjective_alone():
    wrong = [path for path, _ in modules() if module_name(path) in BANNED_ALONE]
    wrong += [
        f"{path}: {node.name}"
        for path, tree in modules()
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.lower() in BANNED_ALONE
    ]
    assert wrong == []


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    for name, path in public_classes():
        places[name].append(path)
    shared = {n: where for n, where in places.items() if len(where) > 1 and n not in SHARED_CLASSES}
    assert shared == {}


def test_the_house_lists_every_package_and_no_other():
    listed = set(re.findall(r"`((?:agents|portal|scheduler)/[\w/]*)`", HOUSE.read_text("utf-8")))
    there = {f"{package.relative_to(ROOT)}/" for package in packages()}
    assert there - listed == set(), "give it a line in docs/house.md"
    assert {name for name in listed if not (ROOT / name).is_dir()} == set()


@pytest.mark.parametrize(
    "package",
    [package for package in packages() if len(own_modules(package)) >= README_FROM],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_package_has_a_readme_that_names_real_files(package: Path):
    readme = package / "README.md"
    assert readme.is_file(), "write it: purpose, picture, words, where to start, tests"
    named = NAMED_FILE.findall(readme.read_text("utf-8"))
    assert [n for n in named if not (package / n).exists() and not (ROOT / n).exists()] == []
