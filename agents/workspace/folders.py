"""The folders of one replica: their names on the node, and where its program finds them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReplicaFolders:
    """Where each folder is: on the node, or for a program in a container."""

    # HOME, and where its program starts.
    scratch: Path
    # For files that no one looks for: TMPDIR.
    temporary: Path
    # The code of its job, read-only.
    code: Path
    # Files of its launcher, such as a hostfile, read-only. Only replicas whose launcher has some.
    launcher: Path
    # Collected when the replica ends.
    output: Path
    # Sent to the portal at each saved step.
    checkpoint: Path
    # Has the file in which the job reports metrics.
    metrics: Path

    @property
    def metrics_file(self) -> Path:
        return self.metrics / "metrics.jsonl"

    @property
    def writable(self) -> tuple[Path, ...]:
        """All that count as the disk of the replica: those that its program may write to."""
        return (self.scratch, self.temporary, self.output, self.checkpoint, self.metrics)


IN_CONTAINER = ReplicaFolders(
    scratch=Path("/workspace"),
    temporary=Path("/tmp"),  # noqa: S108 - a folder of the replica alone
    code=Path("/code"),
    launcher=Path("/launcher"),
    output=Path("/output"),
    checkpoint=Path("/checkpoint"),
    metrics=Path("/metrics"),
)


def folders_below(home: Path) -> ReplicaFolders:
    """On the node, in the replica's own folder."""
    return ReplicaFolders(
        scratch=home / "scratch",
        temporary=home / "tmp",
        code=home / "code",
        launcher=home / "launcher",
        output=home / "output",
        checkpoint=home / "checkpoint",
        metrics=home / "metrics",
    )
