"""Every refusal that a page may show has a Chinese sentence, and what it names is a value of it."""

from __future__ import annotations

import ast
import copy
import gettext
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.configuration.declaration import settings_of
from agents.contract.message import TEMPLATES, Message
from portal.platform import Platform
from portal.web.wording.node_messages import NODE_MESSAGES
from scheduler.core.model.states import (
    AllocationStatus,
    GpuHealth,
    JobStatus,
    NodeStatus,
    ReplicaStatus,
    SliceStatus,
)
from tests.support.agent_codes import codes_of_agents

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("agents/collectives", "agents/combinations", "agents/contract", "agents/rank_network")
PLACES += ("portal", "scheduler")
# They answer programs, in English.
PROGRAMS = (*("agents/contract/codec.py", "portal/api", "portal/cli", "scheduler/replay"),)
PROGRAMS += ("scheduler/advisor/__main__.py", "scheduler/advisor/cases")
# Who takes a sentence, by name, and at which place.
TAKERS = {"Refused": 1, "refuse": 2, "_invalid": 0, "_full": 0, "ValueError": 0}
TAKERS |= {"ChangeRefusedError": 0, "AdvisorError": 0}


def files() -> Iterator[Path]:
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.startswith(PROGRAMS):
                yield path


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def taken(tree: ast.AST, is_request: bool) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The function and the expression of each sentence in it that is given to a taker."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            name = called(node)
            if name in TAKERS and (is_request or name != "ValueError"):
                assert isinstance(node, ast.Call)
                if len(node.args) > TAKERS[name]:
                    yield function, node.args[TAKERS[name]]


def literals(function: ast.AST, made: ast.expr) -> Iterator[str]:
    """The texts of a sentence. Raises ValueError where it is put together in another way."""
    match made:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from literals(function, one)
            yield from literals(function, other)
        case ast.Name(id=name):
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                    yield from literals(function, node.value)
        case ast.JoinedStr() | ast.BinOp():
            raise ValueError(f"line {made.lineno}: {ast.unparse(made)[:80]}")


def messages(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if called(node) == "Message":
            assert isinstance(node, ast.Call)
            yield from literals(tree, node.args[0])


def said() -> tuple[set[str], list[str]]:
    """Every text, and the places where a sentence is no text and no message."""
    found: set[str] = set()
    wrong: list[str] = []
    for path in files():
        tree = ast.parse(path.read_text("utf-8"))
        found |= set(messages(tree))
        for function, made in taken(tree, "core/request" in str(path)):
            try:
                found |= set(literals(function, made))
            except ValueError as why:
                wrong.append(f"{path.relative_to(ROOT)} {why}")
    return found - {""} - TEMPLATES.keys(), wrong


def chinese() -> dict[str, str]:
    compiled = ROOT / "portal" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.mo"
    with compiled.open("rb") as opened:
        found = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]
    return {key: text for key, text in found.items() if isinstance(key, str)}


def test_the_search_finds_sentences_of_services_and_of_the_request():
    found, _ = said()
    assert {
        "Only platform admins may do this. Ask one of them",
        "%(job)s is %(status)s, not waiting",
        "write %(what)s with its unit, such as %(such_as)s",
        "NCCL cannot connect %(n)s processes on %(what)s: choose the gloo backend, or whole GPUs",
        "unknown field: remove it",
    } <= found
    assert len(found) > 120


def test_no_sentence_swallows_what_it_names():
    assert said()[1] == []


def test_every_sentence_of_a_refusal_is_translated():
    assert sorted(said()[0] - set(chinese())) == []


def test_the_help_of_every_setting_of_the_portal_is_translated():
    assert sorted({one.help for one in settings_of(Platform)} - set(chinese())) == []


def test_a_message_survives_a_copy():
    message = Message("%(n)s %% of %(what)s", n=3, what=Message("memory"))
    assert message.text == "3 % of memory"
    for same in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert (same, same.text) == (message, message.text)


def test_a_message_refuses_a_template_whose_value_is_missing():
    with pytest.raises(KeyError):
        Message("%(n)s jobs")


def test_every_status_of_history_has_a_chinese_word():
    nouns = (JobStatus, ReplicaStatus, AllocationStatus, SliceStatus, GpuHealth, NodeStatus)
    assert {str(status) for noun in nouns for status in noun} - set(chinese()) == set()


def test_every_code_of_an_agent_has_a_gist():
    codes = codes_of_agents()
    assert {"image_pull", "no_mig", "mps_over_threads", "in_use"} <= codes
    assert codes - set(NODE_MESSAGES) == set()
