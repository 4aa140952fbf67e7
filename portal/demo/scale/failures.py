"""Why the failed jobs of a seeded cluster failed: diagnosed as real ones are, from a log line."""

from dataclasses import replace

from agents.contract.boards import known_boards
from portal.diagnosis.diagnose import diagnose
from portal.diagnosis.larger_devices import RequestableFleet
from portal.diagnosis.log_text import failure_lines
from portal.diagnosis.remedies import remedy_for
from portal.diagnosis.stored import diagnosis_as_json, finding_as_json
from portal.diagnosis.values import AttemptEnd, ReplicaEnd
from portal.jobs.models import Attempt, Job

_LAST_LINES = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB.",
    "ModuleNotFoundError: No module named 'flash_attn'",
    "ValueError: Expected input batch_size (32) to match target batch_size (31).",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'",
    "AssertionError: loss is nan at step 599",
    "OSError: [Errno 28] No space left on device",
)
_TRACEBACK = 'Traceback (most recent call last):\n  File "/job/train.py", line 41, in <module>\n'
_FLEET = RequestableFleet(tuple(known_boards().values()), 2 << 20, 14 * 86_400)


def diagnose_seeded(job: Job, attempt: Attempt, nth: int, exit_code: int) -> None:
    """Set the columns of a job that failed, or reached its time limit, and of its attempt. The same
    `nth` gives the same cause."""
    line = _LAST_LINES[nth % len(_LAST_LINES)] if exit_code == 1 else ""
    log = f"{_TRACEBACK}{line}\n".encode() if line else b""
    replica = ReplicaEnd(0, exit_code, exit_code == 137, failure_lines(0, 1, log))
    finding = diagnose(AttemptEnd(str(job.stop_reason), status="exited", replicas=[replica]))
    remedy = remedy_for(finding, job.request, _FLEET)
    job.failure_cause = str(finding.cause)
    # The log itself is not seeded, so there is no line to show.
    finding = replace(finding, line=None)
    attempt.finding = finding_as_json(finding, attempt=1, log_bytes=0, secrets=())
    job.diagnosis = diagnosis_as_json(attempt.finding, remedy)
