"""What each XID means for work: a table, with a source for every line.

An XID is the number of an error report of the NVIDIA driver (`NVRM: Xid`). Sources: `DEVICE_PLUGIN`
is the list that NVIDIA's k8s-device-plugin leaves alone (`internal/rm/health.go`); `CATALOG` is
NVIDIA's Xid catalog for Ampere and newer (docs.nvidia.com/deploy/xid-errors); `FACTS` are this
project's collected facts on health, where they go further. Verdicts join these with one rule: where
sources differ, the one for less lost work wins only if the GPU itself is not in doubt.
"""

from dataclasses import dataclass
from enum import StrEnum

DEVICE_PLUGIN = "k8s-device-plugin internal/rm/health.go"
CATALOG = "NVIDIA Xid catalog"
FACTS = "reliability facts, failure 9; partitioning facts, health"
# It repeats what the driver's recovery action reads, and that is read at every look.
RECOVERY_CHANGED = 154
NO_SOURCE = "no source: the careful default"


class XidVerdict(StrEnum):
    """What an XID asks for, from nothing to the whole node.

    `job`: what runs on the device fails, the GPU goes on. `drain`: no new work, what runs goes on.
    `reset`, `node`: no new work, and what the error hit fails; a person resets, or reboots.
    """

    IGNORE = "ignore"
    JOB = "job"
    DRAIN = "drain"
    RESET = "reset"
    NODE = "node"


FAULTS = frozenset({XidVerdict.DRAIN, XidVerdict.RESET, XidVerdict.NODE})
ENDS_WORK = frozenset({XidVerdict.JOB, XidVerdict.RESET, XidVerdict.NODE})


@dataclass(frozen=True, slots=True)
class Xid:
    """`sentence` is for people: what happened, without the number."""

    number: int
    verdict: XidVerdict
    sentence: str
    source: str

    @property
    def faults_gpu(self) -> bool:
        """Whether the GPU gets no new work until it recovers."""
        return self.verdict in FAULTS

    @property
    def ends_work(self) -> bool:
        """Whether what ran on the device that it names cannot go on."""
        return self.verdict in ENDS_WORK


_TABLE = (
    Xid(13, XidVerdict.IGNORE, "a program made an invalid access on the GPU", DEVICE_PLUGIN),
    Xid(31, XidVerdict.IGNORE, "a program used memory that it does not have", DEVICE_PLUGIN),
    Xid(43, XidVerdict.IGNORE, "a program's work on the GPU was stopped", DEVICE_PLUGIN),
    Xid(45, XidVerdict.IGNORE, "the work of a program that ended was cleaned up", DEVICE_PLUGIN),
    Xid(68, XidVerdict.IGNORE, "the video decoder refused what a program gave it", DEVICE_PLUGIN),
    Xid(109, XidVerdict.IGNORE, "a program did not let go of the GPU in time", DEVICE_PLUGIN),
    Xid(94, XidVerdict.JOB, "a memory error was contained to one program", FACTS),
    Xid(63, XidVerdict.DRAIN, "a memory row is to be replaced at the next reset", FACTS),
    Xid(92, XidVerdict.DRAIN, "corrected memory errors are too frequent", FACTS),
    Xid(46, XidVerdict.RESET, "the GPU stopped processing", FACTS),
    Xid(48, XidVerdict.RESET, "a memory error could not be corrected", FACTS),
    Xid(64, XidVerdict.RESET, "a bad memory row could not be replaced", FACTS),
    Xid(74, XidVerdict.RESET, "an NVLink failed", FACTS),
    Xid(95, XidVerdict.RESET, "a memory error was not contained", FACTS),
    Xid(119, XidVerdict.RESET, "the GPU's system processor did not answer in time", FACTS),
    Xid(120, XidVerdict.RESET, "the GPU's system processor failed", FACTS),
    # A card that left the bus comes back with a bus reset or a reboot, not with a GPU reset.
    Xid(79, XidVerdict.NODE, "the GPU has fallen off the bus", FACTS),
    Xid(
        RECOVERY_CHANGED,
        XidVerdict.IGNORE,
        "the driver changed what it needs for a recovery",
        CATALOG,
    ),
)
XIDS: dict[int, Xid] = {xid.number: xid for xid in _TABLE}


def xid_by_number(number: int) -> Xid:
    """The XID's line. An unknown one drains: the GPU gets no new work, and what runs goes on.

    Why so: new hardware errors get new numbers, so an unknown number may mean a broken GPU; but
    nothing is worth killing on a guess. The drain ends by itself (`verdict.QUIET_SECONDS`).
    """
    unknown = "the driver reported an error that this version does not know"
    return XIDS.get(number) or Xid(number, XidVerdict.DRAIN, unknown, NO_SOURCE)


def xids_table() -> str:
    """The XIDs as a Markdown table, for `docs/health.md`."""
    head = "| XID | What happened | Verdict | Source |\n|---|---|---|---|\n"
    return head + "".join(
        f"| {x.number} | {x.sentence} | {x.verdict} | {x.source} |\n"
        for x in sorted(XIDS.values(), key=lambda x: x.number)
    )
