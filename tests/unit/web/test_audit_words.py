"""Fields and nouns of audit lines have Chinese: what the code writes is found in its source."""

import ast
from collections.abc import Iterator

from django.utils import translation
from django.utils.translation import pgettext

from portal.accounts.services import MEMBER_SHARE_BOUNDS, PROJECT_SHARE_BOUNDS
from portal.quotas.policy import POLICY_OPTIONS
from portal.web.console.history import field_changes
from tests.support.chinese import PORTAL

STATES = {"before", "after"}
# Names by which services call what they write into an audit line.
FACTS = STATES | {"facts", "names", "rights", "old", "amounts", "texts"}
FACT_FUNCTIONS = {"_facts", "volume_facts", "service_facts", "_as_dict", "approval_reason"}
# Written in both languages alike.
SAME = {"rank"}


def services() -> Iterator[ast.Module]:
    for path in [*PORTAL.rglob("*.py")]:
        text = path.read_text("utf-8")
        if "AuditAction" in text and "migrations" not in path.parts and path.name != "codes.py":
            yield ast.parse(text)


def keys(node: ast.AST | None) -> Iterator[str]:
    """Of the dictionaries in an expression, without those that are values of others."""
    if isinstance(node, ast.Dict):
        for key in node.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value
    elif isinstance(node, ast.BinOp):
        yield from keys(node.left)
        yield from keys(node.right)
    elif isinstance(node, ast.IfExp):
        yield from keys(node.body)
        yield from keys(node.orelse)


def written_fields() -> set[str]:
    found: set[str] = {*POLICY_OPTIONS, *PROJECT_SHARE_BOUNDS, *MEMBER_SHARE_BOUNDS}
    for module in services():
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg in STATES:
                        found.update(keys(keyword.value))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if node.targets[0].id in FACTS:
                    found.update(keys(node.value))
            elif isinstance(node, ast.FunctionDef) and node.name in FACT_FUNCTIONS:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return):
                        found.update(keys(inner.value))
    return found


def written_nouns() -> set[str]:
    return {
        keyword.value.value
        for module in services()
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "noun" and isinstance(keyword.value, ast.Constant)
    }


def without_chinese(context: str, names: set[str]) -> set[str]:
    with translation.override("zh-hans"):
        words = {name: name.replace("_", " ") for name in names}
        return {name for name, text in words.items() if pgettext(context, text) == text}


def test_the_search_finds_fields_and_nouns():
    assert {"limit_units", "pinned", "held_because", "quota_mib", "currency"} <= written_fields()
    assert {"job", "image_policy", "sign-in", "prices"} <= written_nouns()


def test_every_field_and_noun_of_an_audit_line_has_chinese():
    fields = without_chinese("audit field", written_fields() - SAME)
    assert fields == set(), 'write it in django.po below msgctxt "audit field"'
    nouns = without_chinese("audit noun", written_nouns() - {"rest", "gpu"})
    assert nouns == set(), 'write it in django.po below msgctxt "audit noun"'


def test_a_changed_field_is_named_in_the_readers_language():
    change = ({"limit_units": 56_000}, {"limit_units": 112_000})
    assert field_changes(*change) == (("limit units", "1 GPU", "2 GPU"),)
    with translation.override("zh-hans"):
        assert field_changes(*change) == (("上限", "1 GPU", "2 GPU"),)
        whole = field_changes({"request": {"image": "a"}}, {"request": {"image": "b"}})
        assert whole == (("申请 image", "a", "b"),)
        assert field_changes({}, {"H200-141GB 1g.18gb": "2"})[0][0] == "H200-141GB 1g.18gb"
