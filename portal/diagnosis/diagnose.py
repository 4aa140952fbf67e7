"""From how an attempt ended to its cause: what is stored, then tracebacks, then other lines, then
the exit code. Pure, and in time that is linear in the lines.

Of a gang, each replica that failed is looked at: what broke in one of them goes before what the
others noticed of it, whoever was reported first.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from agents.contract.message import Message, verbatim
from portal.diagnosis.gpu_patterns import GPU_PATTERNS
from portal.diagnosis.log_pattern import LogPattern, first_match
from portal.diagnosis.log_text import FailureLine
from portal.diagnosis.program_patterns import MEMORY_PATTERNS, PROGRAM_PATTERNS
from portal.diagnosis.stored_ends import exit_finding, memory_kill_finding, stored_finding
from portal.diagnosis.tracebacks import HEADER, RaisedException, exception_in, raised_exceptions
from portal.diagnosis.values import AttemptEnd, FailureFinding, ReplicaEnd
from portal.jobs.failure_causes import Confidence, FailureCause

PATTERNS: tuple[LogPattern, ...] = (*GPU_PATTERNS, *MEMORY_PATTERNS, *PROGRAM_PATTERNS)
# After this many other lines the program has got over an exception.
SURVIVED_LINES = 200
# Where a line without a traceback is looked for, and where it is certainly the last word.
NEAR_LINES = 400
LAST_LINES = 12
# Of what a log says in a headline.
MAX_WORDS = 200
SIGKILL = 137
# An exception about another process: what that one wrote says more.
_ABOUT_ANOTHER = re.compile(r"worker|process|exited|actor|engine", re.IGNORECASE)
# Python's words between two tracebacks: of "raise … from", and where handling one raised another.
_NAMED_CAUSE = "The above exception was the direct cause"
_HANDLED = "During handling of the above exception"
# A message of several lines is looked at this far.
MESSAGE_LINES = 10
_ERROR_WORDS = ("rror", "ERROR", "atal", "FATAL", "panic", "ailed", "ailure", "annot")
_CRASH_WORDS = (
    "Segmentation fault",
    "Fatal Python error",
    "terminate called",
    "Bus error",
    "Killed",
    "Aborted",
    "core dumped",
)


def diagnose(end: AttemptEnd) -> FailureFinding:
    """The cause of an attempt's end. There is always one; `unknown` where nothing is known."""
    if stored := stored_finding(end):
        return stored
    findings = [replica_finding(replica) for replica in end.replicas]
    if not findings:
        sentence = end.message or Message(FailureCause.UNKNOWN.label)
        return FailureFinding(FailureCause.UNKNOWN, Confidence.LIKELY, sentence)
    roots = [finding for finding in findings if not finding.is_consequence]
    informed = [finding for finding in roots if finding.cause is not FailureCause.EXIT_CODE]
    certain = [finding for finding in informed if finding.confidence is Confidence.CERTAIN]
    return (certain or informed or roots or findings)[0]


def replica_finding(replica: ReplicaEnd) -> FailureFinding:
    """The cause in what one replica wrote and how it ended."""
    if replica.memory_kill:
        return memory_kill_finding()
    raised = raised_exceptions(replica.lines)
    by_traceback = _by_traceback(replica, raised)
    if by_traceback and not by_traceback.is_consequence:
        return by_traceback
    by_line = _by_line(replica)
    if by_line and not by_line.is_consequence:
        return by_line
    return (
        by_traceback
        or by_line
        or _by_last_word(replica)
        or _by_survived(raised)
        or _by_exit(replica)
    )


def _by_traceback(replica: ReplicaEnd, raised: Sequence[RaisedException]) -> FailureFinding | None:
    """What the tracebacks at the end of the log say: the first chain that names a cause."""
    consequence = None
    for chain in _chains(replica.lines, _last_burst(replica.lines, raised)):
        causes = [each for each in chain if not each.is_consequence]
        known = [each for each in (_known_exception(one, replica) for one in causes) if each]
        if known:
            # A chain goes from what happened to what it means: a row above says more.
            best = min(known, key=lambda each: (each[1].is_consequence, each[0]))[1]
            if not best.is_consequence:
                return best
            consequence = consequence or best
        elif causes and replica.exit_code != SIGKILL:
            other = _other_exception(causes[0], replica)
            return other if consequence is None else consequence
    return consequence


def _known_exception(
    raised: RaisedException, replica: ReplicaEnd
) -> tuple[int, FailureFinding] | None:
    """The row of the first line of its message that a pattern matches, and the finding."""
    match = first_match(PATTERNS, raised.text, is_exception=True, exit_code=replica.exit_code)
    if match:
        pattern, values = match
        finding = _finding(pattern, values, raised.line)
        if pattern.cause is FailureCause.ASSERTION:
            finding = replace(finding, sentence=verbatim(raised.text[:MAX_WORDS]))
        return PATTERNS.index(pattern), finding
    for line in replica.lines[raised.end + 1 : raised.end + 1 + MESSAGE_LINES]:
        if HEADER in line.text:
            return None
        match = first_match(PATTERNS, line.text, is_exception=False, exit_code=replica.exit_code)
        if match:
            return PATTERNS.index(match[0]), _finding(*match, line)
    return None


def _other_exception(raised: RaisedException, replica: ReplicaEnd) -> FailureFinding:
    """An exception of the program's own; or, if it is about another process, what that wrote."""
    if _ABOUT_ANOTHER.search(raised.words) and (finding := _by_line(replica)):
        return replace(finding, confidence=Confidence.LIKELY)
    sentence = verbatim(raised.text[:MAX_WORDS])
    return FailureFinding(FailureCause.EXCEPTION, Confidence.CERTAIN, sentence, raised.line)


def _by_line(replica: ReplicaEnd) -> FailureFinding | None:
    """What a line near the end says that is no traceback: the first root; else the last line that
    goes with the exit code, as a shell goes on after a command that it did not find; else a
    consequence."""
    consequence = ending = None
    near = replica.lines[-NEAR_LINES:]
    for index, line in enumerate(near):
        match = first_match(PATTERNS, line.text, is_exception=False, exit_code=replica.exit_code)
        if match is None:
            continue
        pattern, values = match
        finding = _finding(pattern, values, line)
        if len(near) - index > LAST_LINES:
            finding = replace(finding, confidence=Confidence.LIKELY)
        if pattern.exit_codes:
            ending = finding
        elif not finding.is_consequence:
            return finding
        else:
            consequence = consequence or finding
    return ending or consequence


def _by_last_word(replica: ReplicaEnd) -> FailureFinding | None:
    """An exception without a traceback, such as of a syntax error; certain in the very last line.
    In one before, the program may only have told of it."""
    last = replica.lines[-LAST_LINES:]
    for line in reversed(last):
        named = exception_in(line.text)
        if named and named[0].endswith("Error") and named[0] != "Error" and named[1]:
            match = first_match(PATTERNS, line.text, is_exception=True, exit_code=replica.exit_code)
            sentence = verbatim(line.text[:MAX_WORDS])
            exception = FailureFinding(FailureCause.EXCEPTION, Confidence.CERTAIN, sentence, line)
            finding = _finding(*match, line) if match else exception
            is_last = line is last[-1]
            return finding if is_last else replace(finding, confidence=Confidence.LIKELY)
    return None


def _by_survived(raised: Sequence[RaisedException]) -> FailureFinding | None:
    """The last exception, after which the program wrote much more: perhaps it got over it."""
    own = [each for each in raised if not each.is_consequence]
    if not own:
        return None
    sentence = verbatim(own[-1].text[:MAX_WORDS])
    return FailureFinding(FailureCause.EXCEPTION, Confidence.LIKELY, sentence, own[-1].line)


def _by_exit(replica: ReplicaEnd) -> FailureFinding:
    """What the exit code says, with the last line that speaks of an error."""
    finding = exit_finding(replica.exit_code)
    is_code_alone = finding.cause is FailureCause.EXIT_CODE
    words = _ERROR_WORDS if is_code_alone else _CRASH_WORDS
    last = reversed(replica.lines[-LAST_LINES:])
    line = next((line for line in last if any(word in line.text for word in words)), None)
    if line and is_code_alone:
        text = line.text.strip()[:MAX_WORDS]
        sentence = Message(
            "It ended with exit code %(code)s: %(words)s", code=replica.exit_code, words=text
        )
        return replace(finding, sentence=sentence, line=line)
    return replace(finding, line=line)


def _finding(pattern: LogPattern, values: dict[str, str], line: FailureLine) -> FailureFinding:
    short = {name: value[:MAX_WORDS] for name, value in values.items()}
    # A sentence whose names the line lacks says less than the label.
    sentence = pattern.sentence if pattern.sentence and all(short.values()) else pattern.cause.label
    message = Message(sentence, **(short if pattern.sentence else {}))
    return FailureFinding(
        pattern.cause, pattern.confidence, message, line, short, pattern.is_consequence
    )


def _last_burst(
    lines: Sequence[FailureLine], raised: Sequence[RaisedException]
) -> list[RaisedException]:
    """The tracebacks at the end, with no more than SURVIVED_LINES between them and after them."""
    burst: list[RaisedException] = []
    following = len(lines)
    for each in reversed(raised):
        if following - each.end > SURVIVED_LINES:
            break
        burst.insert(0, each)
        following = each.start
    return burst


def _chains(
    lines: Sequence[FailureLine], burst: Sequence[RaisedException]
) -> Iterator[list[RaisedException]]:
    """Exceptions of one chain together, the first one first. One that the program handled, and
    failed while it did, is left out."""
    chain: list[RaisedException] = list(burst[:1])
    for before, each in pairwise(burst):
        between = [line.text for line in lines[before.end : each.start + 1]]
        if any(_HANDLED in text for text in between):
            chain = [each]
        elif any(_NAMED_CAUSE in text for text in between):
            chain.append(each)
        else:
            yield chain
            chain = [each]
    if chain:
        yield chain
