"""The options in the words of a command, as argparse and clap read them."""

from collections.abc import Collection, Sequence

# A longer number is no size of a world; Python refuses to read very long ones.
MAX_DIGITS = 9


def option_name(word: str) -> str:
    """`--node_rank=1` and `--node-rank` are the same option; "" for a word that is none."""
    return word.partition("=")[0].replace("_", "-") if word.startswith("-") else ""


def separated_options(words: Sequence[str], names: Collection[str]) -> list[str]:
    """The words with `-g8` as `-g 8`, as getopt reads them, for the one-letter options `names`."""
    letters = {name for name in names if len(name) == 2}
    return [
        part
        for word in words
        for part in ((word[:2], word[2:]) if word[:2] in letters and word[2:] else (word,))
    ]


def option_value(words: Sequence[str], names: Collection[str]) -> str | None:
    """What the last of the spellings `names` is given; None if there is none of them."""
    value = None
    for index, word in enumerate(words):
        if option_name(word) in names:
            _, has_value, text = word.partition("=")
            value = text if has_value else "".join(words[index + 1 : index + 2])
    return value


def option_count(words: Sequence[str], names: Collection[str]) -> int | None:
    """What the last of these spellings is given, as a number above 0; None if it is no such."""
    value = option_value(words, names) or ""
    is_number = value.isascii() and value.isdecimal() and len(value) <= MAX_DIGITS
    return (int(value) or None) if is_number else None


def without_options(
    words: Sequence[str], names: Collection[str], flags: Collection[str] = ()
) -> list[str]:
    """The words without these options; those of `flags` have no value."""
    kept: list[str] = []
    at = 0
    while at < len(words):
        name = option_name(words[at])
        if name in names:
            at += 1 if "=" in words[at] else 2
            continue
        if name not in flags:
            kept.append(words[at])
        at += 1
    return kept
