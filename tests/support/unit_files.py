"""Reads units and environment files as systemd does, for tests on machines without it.

Sources: systemd.syntax(7), systemd.service(5) "Command lines", systemd.exec(5) EnvironmentFile=."""

import configparser
import re

WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


def unit_sections(text):
    """By section and setting. Fails on a setting that stands twice."""
    parser = configparser.RawConfigParser(comment_prefixes=("#", ";"), delimiters=("=",))
    parser.optionxform = str
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def command_words(line):
    """The words of ExecStart=, unquoted and expanded. All of them must be quoted."""
    words, rest = [], line
    while rest:
        match = WORD.match(rest)
        assert match, f"not a quoted word: {rest}"
        word = re.sub(r"\\(.)", r"\1", match[1])
        assert not re.search(r"(?<!\$)(?:\$\$)*\$(?!\$)", word), f"expands a variable: {word}"
        assert not re.search(r"(?<!%)(?:%%)*%(?!%)", word), f"expands a specifier: {word}"
        words.append(word.replace("$$", "$").replace("%%", "%"))
        rest = rest[match.end() :].lstrip(" ")
    return words


def environment(text):
    """The variables of an environment file."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        match = WORD.fullmatch(value)
        assert match, f"not a quoted value: {value}"
        found[name] = re.sub(r'\\(["\\$`])', r"\1", match[1])
    return found
