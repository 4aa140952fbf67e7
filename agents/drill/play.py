"""One drill: the script from its first act to its last, with one end of the agent on the way."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.documents import GpuMode, ReplicaWish
from agents.drill.fuse import Fuse, Killed, fused
from agents.drill.node import ENGINE_CALLS, NODE, DrillNode
from agents.drill.script import Act, script
from agents.runtime.base import Phase

# An act that needs more rounds than this does not converge at all.
MOST_ROUNDS = 12
BEGIN_SECONDS = 10.0
WISHED = {ReplicaWish.PREPARE: Phase.CREATED, ReplicaWish.STOP: Phase.EXITED}
Life = tuple[int, str]  # a running replica: its process, the UUID of its device


@dataclass
class Outcome:
    """What one drill showed. `rounds`: the most that an act took after the agent's end."""

    points: int = 0
    where: str = ""
    converged: bool = True
    rounds: int = 0
    orphans: int = 0
    double_starts: int = 0
    touched_running: int = 0
    stuck: str = ""
    lives: dict[str, Life] = field(default_factory=dict)


def play(home: Path, lit: int) -> Outcome:
    """The script on a fresh node in `home`, with an end at point `lit` (0: none)."""
    node, fuse, outcome = DrillNode(home), Fuse(lit), Outcome()
    acts = script(NODE, node.gpu, str(node.starts))
    try:
        with fused(fuse, ENGINE_CALLS):
            for act in acts:
                _perform(node, act, fuse, outcome)
                with fuse.asleep():
                    _witness(node, act, outcome)
                if not outcome.converged:
                    break
        outcome.double_starts = sum(max(0, node.start_count(f"j-{n}") - 1) for n in _names(acts))
        if outcome.converged:
            outcome.orphans = _orphans(node, outcome)
    finally:
        node.end()
    outcome.points, outcome.where = fuse.passed, fuse.where
    return outcome


def _perform(node: DrillNode, act: Act, fuse: Fuse, outcome: Outcome) -> None:
    rounds, was_killed = 0, False
    while True:
        with fuse.asleep():
            missing = _missing(node, act)
        if not missing:
            break
        if rounds == MOST_ROUNDS:
            outcome.converged, outcome.stuck = False, f"{act.name}: {missing}"
            break
        try:
            rounds += 1
            node.round(act.desired)
        except Killed:
            node.kill()
            rounds, was_killed = 0, True
    if was_killed:
        outcome.rounds = max(outcome.rounds, rounds)


def _missing(node: DrillNode, act: Act) -> str:
    """What is not yet as the act wants it; empty when all is."""
    desired = act.desired
    if node.loop is None:
        return "an agent"
    if node.loop.desired.revision != desired.revision:
        return f"revision {desired.revision}"
    if node.is_mig() is not (desired.gpus[0].mode is GpuMode.MIG):
        return "the GPU's mode"
    slices = {place for place, uuid in node.slices().items() if uuid}
    if slices != {(s.start, s.profile) for s in desired.slices}:
        return f"slices, there are {sorted(slices)}"
    wanted = {r.id: WISHED.get(r.wish, Phase.RUNNING) for r in desired.replicas}
    if node.phases() != wanted:
        return f"replicas, there are {node.phases()}"
    failed = node.journal.failures() if node.journal else {}
    return f"failures {failed}" if failed else ""


def _witness(node: DrillNode, act: Act, outcome: Outcome) -> None:
    """What ran in the act before and runs still is the same process on the same device."""
    pids, slices = node.pids(), node.slices()
    for replica in act.desired.replicas:
        if replica.id not in act.running:
            continue
        if not _has_begun(node, replica.job):
            outcome.converged, outcome.stuck = False, f"{act.name}: {replica.id} never began"
        device = replica.devices[0]
        uuid = slices.get((device.start, device.profile), device.gpu_uuid)
        life = (pids.get(replica.id, 0), uuid)
        if outcome.lives.setdefault(replica.id, life) != life:
            outcome.touched_running += 1


def _has_begun(node: DrillNode, job: str) -> bool:
    """Whether its program says so itself: a runtime may only believe that it runs."""
    end = time.monotonic() + BEGIN_SECONDS
    while not node.start_count(job):
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def _orphans(node: DrillNode, outcome: Outcome) -> int:
    """Instances, replicas and processes that are left when nothing is wanted any more."""
    left = sum(_is_alive(pid) for pid, _ in outcome.lives.values())
    return left + len(node.slices()) + len(node.phases())


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _names(acts: list[Act]) -> set[str]:
    return {r.id.removeprefix("r-") for act in acts for r in act.desired.replicas}
