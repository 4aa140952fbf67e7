"""What decides where a log says several things, or nothing."""

import pytest

from agents.contract.end_causes import END_CAUSES, EXCESS_CAUSES
from agents.contract.message import Message
from agents.mps.control import ControlCode
from agents.mps.refusals import ShareCode
from agents.nvml.errors import NvmlCode
from portal.diagnosis.diagnose import PATTERNS, SURVIVED_LINES, diagnose
from portal.diagnosis.log_text import failure_lines
from portal.diagnosis.secrets import masked, masked_message, secret_values
from portal.diagnosis.stored_ends import NODE_CODES
from portal.diagnosis.values import AttemptEnd, ReplicaEnd
from portal.jobs.failure_causes import CAUSE_LABELS, Confidence, FailureCause
from tests.support.agent_codes import OF_REPLICAS, codes_of_agents

# Words of a driver or of MPS, which are shown as they are; and of a replica that was only stopped.
WITHOUT_CAUSE = {*map(str, (*ShareCode, *ControlCode, *NvmlCode)), "mps_exclusive", "never_started"}
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{}\n'


def cause_of(log: str, exit_code: int | None = 1, **end):
    replica = ReplicaEnd(0, exit_code, lines=failure_lines(0, 1, log.encode()))
    return diagnose(AttemptEnd(stop_reason="failed", status="exited", replicas=[replica], **end))


def test_every_cause_has_a_label():
    assert CAUSE_LABELS.keys() == set(FailureCause)


def test_an_exception_that_the_program_got_over_is_not_certain():
    log = TRACEBACK.format("KeyError: 'a'") + "step\n" * (SURVIVED_LINES + 1)
    finding = cause_of(log)
    assert (finding.cause, finding.confidence) == (FailureCause.EXCEPTION, Confidence.LIKELY)


def test_words_of_a_pattern_in_an_ordinary_line_decide_nothing_against_the_last_exception():
    log = "warning: No space left on device for the cache\n" + TRACEBACK.format(
        "ValueError: bad batch"
    )
    assert cause_of(log).cause is FailureCause.EXCEPTION


def test_a_warning_far_from_the_end_is_only_likely():
    finding = cause_of("No space left on device\n" + "step\n" * 100, exit_code=3)
    assert (finding.cause, finding.confidence) == (FailureCause.DISK_FULL, Confidence.LIKELY)


@pytest.mark.parametrize(
    ("exit_code", "cause", "confidence"),
    [
        (126, FailureCause.NOT_EXECUTABLE, Confidence.CERTAIN),
        (127, FailureCause.COMMAND_MISSING, Confidence.CERTAIN),
        (132, FailureCause.CRASH, Confidence.CERTAIN),
        (135, FailureCause.SHARED_MEMORY, Confidence.LIKELY),
        (137, FailureCause.HOST_MEMORY, Confidence.LIKELY),
        (139, FailureCause.CRASH, Confidence.CERTAIN),
        (143, FailureCause.KILLED, Confidence.CERTAIN),
        (1, FailureCause.EXIT_CODE, Confidence.LIKELY),
        (None, FailureCause.UNKNOWN, Confidence.LIKELY),
    ],
)
def test_without_a_log_the_exit_code_tells(exit_code, cause, confidence):
    finding = cause_of("", exit_code)
    assert (finding.cause, finding.confidence) == (cause, confidence)


@pytest.mark.parametrize(
    ("log", "exit_code", "cause"),
    [
        # An optional tool of the beginning is not what ended the program 100 lines later.
        ("python3: No module named pip\n" + "step\n" * 100, 1, FailureCause.MISSING_MODULE),
        ("train.py: error: invalid choice: 'x'\n" + "step\n" * 100, 2, FailureCause.ARGUMENTS),
        # Printed by the program, which went on.
        ("ValueError: bad row, skipped\n" + "step\n" * 5, 3, FailureCause.EXCEPTION),
        ("psycopg: OutOfMemory: out of shared memory\nbye\n", 1, FailureCause.EXIT_CODE),
    ],
)
def test_what_was_not_the_last_word_is_not_certain(log, exit_code, cause):
    finding = cause_of(log, exit_code)
    assert (finding.cause, finding.confidence) == (cause, Confidence.LIKELY)


def test_of_several_commands_the_last_one_gave_the_exit_code():
    first, last = "run.sh: line 1: nvcc", "run.sh: line 9: torchrun"
    log = f"{first}: command not found\nbuilding\n{last}: command not found\n"
    assert cause_of(log, 127).sentence.text == "The image has no command torchrun"


def test_a_memory_kill_is_certain_in_any_rank():
    watcher = ReplicaEnd(0, 1, lines=failure_lines(0, 1, b"ncclRemoteError: peer is gone\n"))
    killed = ReplicaEnd(1, 137, memory_kill=True)
    finding = diagnose(AttemptEnd("failed", status="exited", replicas=[watcher, killed]))
    assert (finding.cause, finding.confidence) == (FailureCause.HOST_MEMORY, Confidence.CERTAIN)


def test_a_code_of_a_node_that_names_no_cause_is_no_time_out():
    message = Message("The MPS daemon does not answer")
    finding = diagnose(AttemptEnd("failed", "mps_no_daemon", "failed", message))
    assert (finding.cause, finding.confidence) == (FailureCause.NODE_FAULT, Confidence.LIKELY)
    assert finding.sentence == message


def test_every_end_that_a_node_names_has_a_cause():
    ends = codes_of_agents(OF_REPLICAS) | END_CAUSES | EXCESS_CAUSES
    assert {"workspace", "files_absent", "disk_full"} <= ends
    assert ends - WITHOUT_CAUSE - NODE_CODES.keys() == set()


@pytest.mark.parametrize(
    ("code", "words", "cause"),
    [
        ("files_absent", "the tree was removed", FailureCause.FILES_ABSENT),
        (
            "files_unwritten",
            "Permission denied",
            FailureCause.NODE_FAULT,
        ),
        (
            "files_unwritten",
            "Disk quota exceeded",
            FailureCause.DISK_FULL,
        ),
        (
            "workspace",
            "No space left on device",
            FailureCause.DISK_FULL,
        ),
        ("secrets_unkept", "this node cannot keep secrets in memory", FailureCause.NODE_FAULT),
    ],
)
def test_what_a_replica_should_start_with_is_certain(code, words, cause):
    finding = diagnose(AttemptEnd("failed", code, "failed", Message(words)))
    assert (finding.cause, finding.confidence) == (cause, Confidence.CERTAIN)
    assert finding.sentence.text == words


def test_what_is_stored_of_the_end_goes_before_the_log():
    finding = cause_of(
        TRACEBACK.format("torch.OutOfMemoryError: CUDA out of memory"),
        137,
        code="node_restarted",
        message=Message("Its node was shut down or restarted while it ran"),
    )
    assert (finding.cause, finding.line) == (FailureCause.NODE_FAULT, None)


def test_an_end_without_replicas_that_failed_has_a_cause():
    finding = diagnose(
        AttemptEnd(stop_reason="failed", message=Message("it was not ready in time"))
    )
    assert finding.cause is FailureCause.NOT_READY


def test_carriage_returns_escapes_and_control_characters_leave_text():
    lines = failure_lines(2, 7, b"10%\r20%\r\x1b[31mRuntimeError: no\x1b[0m\x00\nnext\n")
    assert [(line.number, line.text) for line in lines] == [
        (7, "10%"),
        (7, "20%"),
        (7, "RuntimeError: no"),
        (8, "next"),
    ]


def test_secrets_are_masked_by_value_by_form_and_by_name():
    values = secret_values({"HF_TOKEN": "s3cretvalue", "N": "4", "PORT": "12345678"})
    assert values == ["s3cretvalue"]
    assert secret_values({"KEY": "-----BEGIN-----\nabcdefgh\n"}) == ["-----BEGIN-----", "abcdefgh"]
    assert masked("got s3cretvalue here", values) == "got *** here"
    assert masked("token=abcd1234 ok") == "token=*** ok"
    assert masked("https://bob:pa55word@host/x") == "https://***@host/x"
    assert masked("key hf_abcdefghijklmnopqrst") == "key ***"
    message = masked_message(Message("The image has no command %(name)s", name="hf_" + "a" * 30))
    assert message.text == "The image has no command ***"


def test_every_expression_names_what_its_sentence_needs():
    for pattern in PATTERNS:
        if pattern.expression is not None and pattern.sentence:
            Message(pattern.sentence, **dict.fromkeys(pattern.expression.groupindex, "x"))
