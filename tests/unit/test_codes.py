"""Codes are closed sets, each with one table, and no call writes one as a bare word."""

import ast
from pathlib import Path

import pytest

from portal.audit.codes import AUDIT_LABELS, EVENT_LABELS, AuditAction, EventCode
from portal.error_codes import ERROR_KINDS, ErrorCode
from scheduler.core.model.states import GpuHealth
from tests.support.chinese import chinese_catalogue

ROOT = Path(__file__).resolve().parents[2]
# What takes a code, and where: the position of the argument and its name.
TAKERS = {
    "Refused": (0, "code"),
    "event_record": (1, "code"),
    "advance": (None, "code"),
    "audit_record": (None, "action"),
    "node_audit": (1, "action"),
    "user_audit": (1, "action"),
}


def bare_codes(source: str) -> list[str]:
    """Words and f-strings that a call gives as a code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in TAKERS:
            continue
        position, keyword = TAKERS[name]
        given = [each.value for each in node.keywords if each.arg == keyword]
        if position is not None and len(node.args) > position:
            given.append(node.args[position])
        found += [ast.unparse(each) for each in given if _is_bare(each)]
    return found


def _is_bare(given: ast.expr) -> bool:
    is_word = isinstance(given, ast.Constant) and isinstance(given.value, str)
    return is_word or isinstance(given, ast.JoinedStr)


def test_the_search_finds_bare_codes():
    source = 'Refused("busy", "x"); event_record(row, f"health_{h}", m); advance(r, to, code="x")'
    assert bare_codes(source) == ["'busy'", "f'health_{h}'", "'x'"]
    assert bare_codes("Refused(ErrorCode.BUSY, 'x'); advance(row, to)") == []


def test_no_call_writes_a_code_as_a_bare_word():
    files = [*(ROOT / "portal").rglob("*.py"), *(ROOT / "scheduler").rglob("*.py")]
    assert len(files) > 300
    found = {str(f.relative_to(ROOT)): bare_codes(f.read_text("utf-8")) for f in files}
    assert {name: codes for name, codes in found.items() if codes} == {}


@pytest.mark.parametrize(
    ("codes", "table"),
    [(ErrorCode, ERROR_KINDS), (AuditAction, AUDIT_LABELS), (EventCode, EVENT_LABELS)],
)
def test_every_code_has_its_row(codes, table):
    assert list(table) == list(codes)


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_has_a_status_of_its_kind_and_a_title(code):
    kind = ERROR_KINDS[code]
    assert 400 <= kind.status < 600 and kind.title[0].isupper() and not kind.title.endswith(".")
    if code.endswith(("_invalid", "_unknown")):
        assert kind.status == 400


@pytest.mark.parametrize("code", [*AuditAction, *EventCode])
def test_pages_have_a_chinese_word_for_a_code(code):
    assert chinese_catalogue().gettext(code.label) != code.label


def test_every_health_of_a_gpu_has_its_event():
    assert {EventCode(f"health_{health}") for health in GpuHealth} <= set(EventCode)


def test_the_documentation_lists_every_error():
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    rows = [f"| `{code}` | {kind.status} | {kind.title} |" for code, kind in ERROR_KINDS.items()]
    assert [row for row in rows if row not in text] == []
    assert text.count("\n| `") == len(rows)
