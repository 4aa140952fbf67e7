"""Secrets in the log of a replica: hidden by exact value, however the log is cut into chunks."""

from agents.job_secrets.redaction import LogRedaction, WholeRedaction

TOKEN = "hf_abcdefgh"
KEY = "-----BEGIN KEY-----\nQUJDREVGR0g=\n-----END KEY-----\n"


def shipped(redaction, log, size, *, steps):
    """What leaves the node if the log grows by `steps` and chunks of at most `size` are taken."""
    sent = b""
    for end in steps:
        text = log[:end]
        while data := redaction.read(
            lambda offset, limit, text=text: text[offset : offset + limit],
            len(sent),
            size,
            is_complete=end == len(log),
        ):
            sent += data
    return sent


def test_a_value_is_hidden_at_every_cut_of_chunks_and_at_every_growth_of_the_log():
    log = f"a {TOKEN} b\n{TOKEN}{TOKEN} hf_abc end".encode()
    hidden = log.replace(TOKEN.encode(), b"*" * len(TOKEN))
    redaction = LogRedaction([TOKEN])
    for size in (1, 2, 5, len(TOKEN), 1_000):
        for first in range(len(log) + 1):
            assert shipped(redaction, log, size, steps=(first, len(log))) == hidden, (size, first)


def test_values_that_overlap_are_hidden_together():
    log, one, other = b"xxaaaabbbbccccyy", "aaaabbbb", "bbbbcccc"
    redaction = LogRedaction([one, other])
    for first in range(len(log) + 1):
        assert shipped(redaction, log, 3, steps=(first, len(log))) == b"xx" + b"*" * 12 + b"yy"


def test_a_key_of_several_lines_is_hidden_line_by_line():
    log = b"a\r\n" + KEY.replace("\n", "\r\n").encode() + b"z"
    sent = shipped(LogRedaction([KEY]), log, 7, steps=(len(log),))
    assert b"QUJD" not in sent and b"BEGIN" not in sent
    assert (sent[:3], sent[-1:], len(sent)) == (b"a\r\n", b"z", len(log))


def test_a_value_that_is_printed_without_the_line_end_it_was_stored_with_is_hidden():
    assert LogRedaction([f"{TOKEN}\n"]).masked(f"<{TOKEN}>".encode()) == b"<***********>"


def test_a_line_that_could_be_the_begin_of_a_secret_waits_only_while_the_job_runs():
    redaction = LogRedaction([TOKEN])
    read = b"say hf_abc".__getitem__
    arguments = (lambda offset, limit: read(slice(offset, offset + limit)), 0, 100)
    assert redaction.read(*arguments, is_complete=False) == b"say "
    assert redaction.read(*arguments, is_complete=True) == b"say hf_abc"


def test_without_values_nothing_but_the_ends_of_lines_is_left():
    assert WholeRedaction().masked(b"ab\ncd\n") == b"**\n**\n"
