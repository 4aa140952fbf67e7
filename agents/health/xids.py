"""What each XID means for work, with a source for every verdict.

An XID is the number of an error report of the NVIDIA driver (`NVRM: Xid`). Sources: `DEVICE_PLUGIN`
is the list that NVIDIA's k8s-device-plugin ignores (`internal/rm/health.go`); `CATALOG` is NVIDIA's
Xid catalog for Ampere and newer (docs.nvidia.com/deploy/xid-errors), and `RESTART_APP` the errors
whose only remedy there is to restart the program; `RULE` marks verdicts that this project chose.
Where sources differ, the verdict that loses less work wins only if the GPU itself is not in doubt.
"""

from dataclasses import dataclass
from enum import StrEnum

DEVICE_PLUGIN = "k8s-device-plugin internal/rm/health.go"
CATALOG = "NVIDIA Xid catalog"
RESTART_APP = "NVIDIA Xid catalog, action RESTART_APP"
RULE = "Tessera's rule, from the NVIDIA Xid catalog"
# It announces a new recovery action, which every assessment reads anyway.
RECOVERY_CHANGED = 154
NO_SOURCE = "no source: the cautious default"


class XidVerdict(StrEnum):
    """What an XID requires, from nothing to a reboot."""

    IGNORE = "ignore"
    # Replicas on the device fail; the GPU keeps working.
    JOB = "job"
    # No new work; replicas continue.
    DRAIN = "drain"
    # No new work, and replicas on the device fail. An administrator resets the GPU, or for `node`
    # its bus or the node.
    RESET = "reset"
    NODE = "node"


FAULTS = frozenset({XidVerdict.DRAIN, XidVerdict.RESET, XidVerdict.NODE})
ENDS_WORK = frozenset({XidVerdict.JOB, XidVerdict.RESET, XidVerdict.NODE})


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID and its verdict."""

    number: int
    verdict: XidVerdict
    # What happened, without the number.
    sentence: str
    source: str

    @property
    def faults_gpu(self) -> bool:
        """Whether the GPU gets no new work until it recovers."""
        return self.verdict in FAULTS

    @property
    def ends_work(self) -> bool:
        """Whether replicas on the device that it names fail."""
        return self.verdict in ENDS_WORK


_TABLE = (
    Xid(13, XidVerdict.IGNORE, "a program made an invalid access on the GPU", DEVICE_PLUGIN),
    Xid(31, XidVerdict.IGNORE, "a program accessed memory that it had not mapped", DEVICE_PLUGIN),
    Xid(43, XidVerdict.IGNORE, "a program's work on the GPU was stopped", DEVICE_PLUGIN),
    Xid(45, XidVerdict.IGNORE, "the work of an ended program was cleaned up", DEVICE_PLUGIN),
    Xid(68, XidVerdict.IGNORE, "the video decoder rejected a program's input", DEVICE_PLUGIN),
    Xid(109, XidVerdict.IGNORE, "a program did not yield the GPU in time", DEVICE_PLUGIN),
    Xid(94, XidVerdict.JOB, "a memory error was contained to one program", RULE),
    Xid(63, XidVerdict.DRAIN, "a memory row will be remapped at the next reset", RULE),
    Xid(92, XidVerdict.DRAIN, "corrected memory errors are too frequent", RULE),
    Xid(46, XidVerdict.RESET, "the GPU stopped processing", RULE),
    Xid(48, XidVerdict.RESET, "a memory error could not be corrected", RULE),
    Xid(64, XidVerdict.RESET, "a bad memory row could not be remapped", RULE),
    Xid(74, XidVerdict.RESET, "an NVLink failed", RULE),
    Xid(95, XidVerdict.RESET, "a memory error was not contained", RULE),
    Xid(119, XidVerdict.RESET, "the GPU's system processor (GSP) did not respond in time", RULE),
    Xid(120, XidVerdict.RESET, "the GPU's system processor (GSP) failed", RULE),
    # A card that fell off the bus needs a bus reset or a reboot; a GPU reset is not enough.
    Xid(79, XidVerdict.NODE, "the GPU has fallen off the bus", RULE),
    Xid(
        RECOVERY_CHANGED,
        XidVerdict.IGNORE,
        "the driver changed its recovery action",
        CATALOG,
    ),
)
# Errors that a program causes, by what happened. An engine rejects its work, and CUDA reports that
# to the program.
_OF_PROGRAMS: dict[str, tuple[int, ...]] = {
    "a program's work did not go on in time": (8,),
    "a program sent commands that are not valid": (11, 25, 32, 80),
    "a program called a function of the GPU wrongly": (69,),
    "a copy engine rejected a program's work": (
        *(39, 40, 41, 70, 71, 72, 75, 76, 77, 85),
        *range(126, 136),
    ),
    "a JPEG decoder rejected a program's input": (82, *range(99, 106)),
    "a video decoder rejected a program's input": (83, 84, 88, 89, 96, 97, 98),
    "the optical flow engine rejected a program's work": (86, 139),
}
XIDS: dict[int, Xid] = {xid.number: xid for xid in _TABLE} | {
    number: Xid(number, XidVerdict.IGNORE, sentence, RESTART_APP)
    for sentence, numbers in _OF_PROGRAMS.items()
    for number in numbers
}


def xid_by_number(number: int) -> Xid:
    """The XID of this number. An unknown XID drains the GPU.

    New hardware errors get new numbers, so the GPU may be broken, but a guess is no reason to kill
    running work. The drain ends by itself (`verdict.EVENT_LIFETIME_SECONDS`).
    """
    unknown = "the driver reported an error that this version does not know"
    return XIDS.get(number) or Xid(number, XidVerdict.DRAIN, unknown, NO_SOURCE)


def xids_table() -> str:
    """The XIDs as a Markdown table, for `docs/health.md`; those that differ by number only are one
    line."""
    lines: dict[tuple[str, XidVerdict, str], list[int]] = {}
    for xid in sorted(XIDS.values(), key=lambda x: x.number):
        lines.setdefault((xid.sentence, xid.verdict, xid.source), []).append(xid.number)
    head = "| XID | What happened | Verdict | Source |\n|---|---|---|---|\n"
    return head + "".join(
        f"| {_ranges(numbers)} | {sentence} | {verdict} | {source} |\n"
        for (sentence, verdict, source), numbers in lines.items()
    )


def _ranges(numbers: list[int]) -> str:
    """Such as "39-41, 85"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in found)
