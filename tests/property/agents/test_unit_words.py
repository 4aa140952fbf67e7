"""Whatever the arguments are, systemd passes on the same words."""

from hypothesis import given
from hypothesis import strategies as st

from agents.service.unit import environment_text, environment_values, unit_text
from tests.support.unit_files import command_words, environment, unit_sections

PRINTABLE = st.text().filter(str.isprintable)


@given(st.lists(PRINTABLE))
def test_every_word_of_a_command_arrives_as_it_was(words):
    text = unit_text(["/usr/bin/python3", *words], "/srv", "/etc/agent.env")
    line = unit_sections(text)["Service"]["ExecStart"]
    assert command_words(line) == ["/usr/bin/python3", *words]


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]*", fullmatch=True), PRINTABLE))
def test_every_variable_arrives_as_it_was(variables):
    text = environment_text(variables)
    assert environment(text) == variables
    assert environment_values(text) == variables
