"""The record of a daemon, by which a later agent adopts it: a file, written before the start."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agents.contract.documents import SliceKind
from agents.facts.device_keys import DeviceKey
from agents.mps.refusals import ShareClaim

FILE = "share.json"


@dataclass(frozen=True, slots=True)
class ShareHolder:
    """A replica that has a share: its amounts, for all its processes together."""

    threads: int
    memory_mib: int
    processes: int


@dataclass
class DaemonRecord:
    """One daemon: its project, its device, and the replicas that share it."""

    project: str
    place: DeviceKey
    # The driver's UUID.
    device: str
    uid: int
    # The limits of a client that the daemon was given.
    threads: int = 0
    memory_mib: int = 0
    # By replica.
    holders: dict[str, ShareHolder] = field(default_factory=dict)

    def claims(self) -> list[ShareClaim]:
        """The claims of its holders."""
        return [
            ShareClaim(
                replica=replica,
                project=self.project,
                kind=SliceKind.MPS,
                place=self.place,
                threads=holder.threads,
                memory_mib=holder.memory_mib,
                processes=holder.processes,
            )
            for replica, holder in self.holders.items()
        ]


def save_record(folder: Path, record: DaemonRecord) -> None:
    """Write atomically: a reader sees all of it or nothing."""
    part = folder / f"{FILE}.part"
    part.write_text(json.dumps(asdict(record)), "utf-8")
    part.replace(folder / FILE)


def load_record(folder: Path) -> DaemonRecord | None:
    """None if nothing was written yet, or not by this version: then no daemon was started."""
    try:
        data = json.loads((folder / FILE).read_text("utf-8"))
        holders = {name: ShareHolder(**holder) for name, holder in data["holders"].items()}
        gpu, profile, start, size = data["place"]
        place = (str(gpu), str(profile), int(start), int(size))
        return DaemonRecord(**{**data, "place": place, "holders": holders})
    except (OSError, ValueError, KeyError, TypeError):
        return None
