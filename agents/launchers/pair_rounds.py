#!/usr/bin/env python3
"""A program of nccl-tests over pairs of nodes of one gang, several pairs at a time: a file of
launcher nccl-tests, which openmpi_gang.py runs in rank 0.

    pair_rounds.py SLOTS ROUNDS PROGRAM…

SLOTS: processes of each replica. ROUNDS: such as 0:1,2+3:4/1:2+3 - rounds one after the other, the
pairs of a round at the same time, the replicas of a node joined by +. Each pair has an mpirun of
its own. What it printed comes in one piece after a line with its name, when its round is over.
Standard library only, for any Python from 3.8.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable

# The reader of tables knows what belongs to which pair by this line.
TITLE = "# tessera: pair"
HOST = "replica-"
# A pair that hangs must not take the time of the others: three rounds are within five minutes.
ROUND_SECONDS = 80
END_SECONDS = 5


def name_of_pair(*nodes: Iterable[int]) -> str:
    """`nodes`: the ranks of the replicas of each."""
    return ":".join("+".join(map(str, ranks)) for ranks in nodes)


def ranks_of_pair(name: str) -> list[int]:
    return [int(rank) for node in name.split(":") for rank in node.split("+")]


class PairRun:
    """The mpirun of one pair."""

    def __init__(self, name: str, slots: int, program: list[str]) -> None:
        self._name = name
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - read at the end
        ranks = ranks_of_pair(name)
        hosts = ",".join(f"{HOST}{rank}:{slots}" for rank in ranks)
        command = [
            *("mpirun", "--allow-run-as-root", "-n", str(slots * len(ranks))),
            *("--host", hosts, "--bind-to", "none", *program),
        ]
        to = self._output
        self._run = subprocess.Popen(command, stdout=to, stderr=subprocess.STDOUT)  # noqa: S603

    @property
    def is_good(self) -> bool:
        return self._run.poll() == 0

    def wait(self, deadline: float) -> None:
        """Until then, or its end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._run.wait(max(0.0, deadline - time.monotonic()))

    def terminate(self) -> None:
        """mpirun ends its processes in the other replicas, too."""
        if self._run.poll() is None:
            self._run.terminate()

    def kill(self) -> None:
        self._run.kill()
        self._run.wait()

    def show(self) -> None:
        self._output.seek(0)
        text = self._output.read().decode("utf-8", "replace")
        sys.stdout.write(f"{TITLE} {self._name}\n{text.rstrip()}\n")
        sys.stdout.flush()
        self._output.close()


def measure(names: list[str], slots: int, program: list[str]) -> bool:
    """Whether all pairs of a round came to a good end in time."""
    pairs: list[PairRun] = []
    deadline = time.monotonic() + ROUND_SECONDS
    try:
        # If it is told to end here, those that have started end, too.
        for name in names:
            pairs.append(PairRun(name, slots, program))
        for pair in pairs:
            pair.wait(deadline)
        return all(pair.is_good for pair in pairs)
    finally:
        for pair in pairs:
            pair.terminate()
        deadline = time.monotonic() + END_SECONDS
        for pair in pairs:
            pair.wait(deadline)
            pair.kill()
            pair.show()


def main() -> int:
    slots, rounds, *program = sys.argv[1:]
    # Told to end, it ends what runs and shows what there is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = [measure(names.split(","), int(slots), program) for names in rounds.split("/")]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
