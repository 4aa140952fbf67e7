"""Public names are nouns and verbs of the field, one meaning each; every package introduces itself.

docs/glossary.md has the words. A name is public when neither it nor anything around it begins with
an underscore.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agents", "portal", "scheduler")

# Never a part of a public name: verbs of telling and seeing, people and metaphors.
BANNED_PARTS = frozenset(
    "told asked said foretell foretold foresee foreseen lately newcomer whoever somebody nobody".split()
)
# Never a public name by itself, nor its last part: a participle, pronoun or adverb without its noun.
BANNED_ENDS = frozenset(
    """found given here there kept seen look looked piece who whose those these some most least by
    because past used quiet warm took standing wanted known called made other instead many much
    thing""".split()
)
# Words of others: Django's, DRF's, pynvml's and the standard library's own names.
FOREIGN = frozenset({"get_or_none"})
# Public classes of one name: what they share is one meaning.
SHARED_CLASS_NAMES = {
    "Command": "django.core.management asks for it",
    "Meta": "Django's",
}
PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8"))


def parts(name: str) -> list[str]:
    return [part.lower() for part in PARTS.findall(name)]


def is_banned(name: str) -> bool:
    words = parts(name)
    if not words or name in FOREIGN:
        return False
    return bool(BANNED_PARTS & set(words)) or words[-1] in BANNED_ENDS


def definitions(body: list[ast.stmt], where: str) -> Iterator[tuple[str, str]]:
    """Names of classes, functions, their arguments and fields, outside private ones."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield where, node.name
            yield from definitions(node.body, f"{where}:{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            yield where, node.name
            every = node.args
            for argument in [*every.posonlyargs, *every.args, *every.kwonlyargs]:
                if not argument.arg.startswith("_"):
                    yield f"{where}:{node.name}", argument.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not node.target.id.startswith("_"):
                yield where, node.target.id
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield where, target.id


def wrong_names() -> list[str]:
    found = []
    for path, tree in modules():
        stem = Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem
        if is_banned(stem):
            found.append(f"{path}: module {stem}")
        found += [
            f"{where}: {name}" for where, name in definitions(tree.body, path) if is_banned(name)
        ]
    return found


def test_the_search_sees_names_at_all():
    names = {name for path, tree in modules() for _, name in definitions(tree.body, path)}
    assert {"Job", "plan", "snapshot", "job_submit", "memory_mib"} <= names
    assert is_banned("Foretold") and is_banned("asked_for") and is_banned("found")
    assert not is_banned("is_known_board") and not is_banned("whole_gpu")


def test_no_public_name_is_a_bare_participle_or_pronoun():
    assert wrong_names() == []


def test_no_two_public_classes_share_a_name():
    where = defaultdict(list)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(path)
    shared = {
        name: paths
        for name, paths in where.items()
        if len(paths) > 1 and name not in SHARED_CLASS_NAMES
    }
    assert shared == {}


def packages() -> list[Path]:
    """Folders with at least two modules of their own."""
    found = []
    for package in PACKAGES:
        for init in sorted((ROOT / package).rglob("__init__.py")):
            folder = init.parent
            own = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
            if not {"migrations", "management", "commands"} & {folder.name} and len(own) >= 2:
                found.append(folder)
    return found


NAMED = re.compile(r"`([\w./-]+\.(?:py|md|html|json|css|js|po)|[\w./-]+/)`")


@pytest.mark.parametrize("folder", packages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_has_a_readme_that_names_real_files(folder: Path):
    readme = folder / "README.md"
    assert readme.is_file(), "write README.md: purpose, picture, words, where to start, tests"
    missing = [
        name
        for name in NAMED.findall(readme.read_text("utf-8"))
        if not (folder / name).exists() and not (ROOT / name).exists()
    ]
    assert missing == []
