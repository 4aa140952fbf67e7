"""What the planner says is told in the reader's language: each key has its text, whole."""

import ast
import re
from pathlib import Path

import pytest

from agents.contract.message import (
    NAME,
    PLACEHOLDER,
    TEMPLATES,
    Message,
    in_english,
    join_clauses,
    read_message,
    render,
    verbatim,
)
from scheduler.core.model.message_templates import PLANNER_TEMPLATES, make_message
from tests.support.chinese import in_chinese

CORE = Path(__file__).resolve().parents[3] / "scheduler" / "core"
LATIN = re.compile(r"[A-Za-z]{2,}")
# Names and units that no language translates.
NAMES = {"GPU", "CPU", "CUDA", "MIG", "MPS", "MiB", "NVLink", "RDMA", "rank", "any", "auto"}


@pytest.mark.parametrize("key", TEMPLATES)
def test_every_template_has_a_chinese_text_with_the_same_values(key):
    template = TEMPLATES[key]
    for text in (template.singular, template.plural):
        assert set(PLACEHOLDER.findall(text)) <= template.placeholders
    chinese = in_chinese(template.singular, template.plural, 2)
    assert set(PLACEHOLDER.findall(chinese)) == template.placeholders
    left = PLACEHOLDER.sub("", chinese)
    assert set(LATIN.findall(left)) <= NAMES, f"{key}: English is left in {chinese}"
    if LATIN.search(PLACEHOLDER.sub("", template.singular)):
        assert chinese != template.singular


def test_one_and_many_have_the_same_values_and_a_count_that_is_given():
    for key, template in TEMPLATES.items():
        assert bool(template.plural) == bool(template.count_name), key
        if template.plural:
            one = set(PLACEHOLDER.findall(template.singular)) | {template.count_name}
            assert one == set(PLACEHOLDER.findall(template.plural)) | {template.count_name}, key


def test_every_key_that_the_planner_names_is_a_template():
    """Keys that are constants in a call of `make_message`; the property tests see the others."""
    named = {
        node.args[0].value
        for file in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "make_message"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(named) > 40
    assert named <= TEMPLATES.keys()


def test_a_sentence_survives_its_json_and_is_told_in_any_language():
    said = make_message(
        "quota.has_borrowed",
        first=make_message("quota.may_hold", whose="vision", limit="1"),
        borrowed="2.50",
    )
    assert said.text == "vision may use 1 GPU at once and has borrowed 2.50 more"
    again = read_message(said.as_dict())
    assert again == said
    assert render(again, in_chinese) == "vision 同时最多占用 1 块 GPU，并已借用 2.50"


def test_lists_and_clauses_are_joined_as_the_language_does():
    said = join_clauses(make_message("dependency", jobs=["J-1", "J-2"]), verbatim("because"))
    assert said.text == "It starts after J-1, J-2; because"
    assert render(said, in_chinese) == "在 J-1，J-2 之后开始；because"


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "It waits",
        {"key": "of.another.version", "values": {}},
        {"key": "held", "values": {}},
        {"key": "held"},
        {"key": ["held"], "values": {}},
        {"key": "held", "values": {"because": {"key": "gone.away", "values": {}}}},
        {"key": "dependency", "values": {"jobs": [{"key": "gone.away", "values": {}}]}},
    ],
)
def test_what_another_version_wrote_is_left_to_its_english_sentence(stored):
    assert read_message(stored) is None
    english = "It waits for 50 % of a moon"
    assert read_message(stored, english) == verbatim(english)


def test_an_unknown_key_that_is_a_sentence_is_shown_as_it_is():
    """A newer node's message: its key is its English text."""
    newer = {"key": "%(n)s moons are %(what)s", "values": {"n": 3, "what": "full"}}
    message = read_message(newer, "3 moons are full")
    assert message is not None
    assert message.as_dict() == newer
    assert render(message, in_chinese) == "3 moons are full"


@pytest.mark.parametrize(
    ("stored", "chinese"),
    [
        ({"key": "unblocks.nothing_to_do", "values": {}}, "无需操作"),
        ({"template": "cancelled by %(user)s", "values": {"user": "ada"}}, "ada 已取消"),
        (
            {
                "template": "%(why)s; it is queued again automatically",
                "values": {
                    "why": {"template": "stopped for a job of higher priority", "values": {}}
                },
            },
            "为优先级更高的作业而停止；它会自动重新排队",
        ),
        (
            {
                "template": "%(job)s, which had to succeed first, ended as %(status)s",
                "values": {"job": "J-1", "status": "failed"},
            },
            "J-1 的结果是失败，而本作业排在它之后",
        ),
    ],
)
def test_rows_of_earlier_versions_are_shown_in_the_reader_s_language(stored, chinese):
    message = read_message(stored)
    assert message is not None
    assert render(message, in_chinese) == chinese


KEPT_NAMES = ("array_cap", "begin_time", "dependency", "held")


def test_no_name_of_a_message_is_a_sentence_of_another():
    """A name and an English text are keys of one table."""
    for name in PLANNER_TEMPLATES:
        assert NAME.fullmatch(name) or name in KEPT_NAMES, name


def test_no_sentence_is_made_of_a_key_that_is_no_template():
    with pytest.raises(KeyError):
        make_message("no.such.key")
    assert render(Message("nothing"), in_english) == ""
