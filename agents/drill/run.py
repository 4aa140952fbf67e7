"""One drill: a script from its first act to its last, with one end of the agent on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.documents import DesiredReplicaState, GpuMode
from agents.drill.kill_points import Fuse, Killed, fused
from agents.drill.node import ENGINE_CALLS, NODE, DrillNode
from agents.drill.script import Act, script
from agents.runtime.base import ContainerPhase

# An act that needs more rounds than this does not converge at all.
MOST_ROUNDS = 12
WISHED = {
    DesiredReplicaState.PREPARE: ContainerPhase.CREATED,
    DesiredReplicaState.STOP: ContainerPhase.EXITED,
}
Life = tuple[str, str]  # a running replica: which run of it this is, the UUID of its device


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
    """The script with processes on a fresh node in `home`, with an end at point `lit` (0: none)."""
    node, fuse = DrillNode(home), Fuse(lit)
    try:
        with fused(fuse, ENGINE_CALLS):
            return perform(node, script(NODE, node.gpu, str(node.starts)), fuse)
    finally:
        node.end()


def perform(node: DrillNode, acts: Sequence[Act], fuse: Fuse) -> Outcome:
    """Every act in turn. `fuse` is in place, and the node is not ended."""
    outcome = Outcome()
    for act in acts:
        _perform(node, act, fuse, outcome)
        if outcome.converged:
            with fuse.asleep():
                _witness(node, act, outcome)
        if not outcome.converged:
            break
    with fuse.asleep():
        outcome.double_starts = node.second_starts(_jobs(acts))
        if outcome.converged:
            outcome.orphans = node.left()
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
            if act.leaves and node.loop:
                node.loop.stop_jobs()
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
    failures = node.journal.failures() if node.journal else {}
    if {replica: failure.code for replica, failure in failures.items()} != act.failing:
        return f"failures, there are {failures}"
    wanted = {
        r.id: WISHED.get(r.wish, ContainerPhase.RUNNING)
        for r in desired.replicas
        if r.id not in act.failing
    }
    if node.phases() != wanted:
        return f"replicas, there are {node.phases()}"
    if act.leaves and node.left():
        return f"nothing, there are {node.left()} things"
    return node.wrong()


def _witness(node: DrillNode, act: Act, outcome: Outcome) -> None:
    """What ran in the act before and runs still is the same process on the same device."""
    lives, slices = node.lives(), node.slices()
    for replica in act.desired.replicas:
        if replica.id not in act.running:
            continue
        if not node.has_begun(replica):
            outcome.converged, outcome.stuck = False, f"{act.name}: {replica.id} never began"
        device = replica.devices[0]
        uuid = slices.get((device.start, device.profile), device.gpu_uuid)
        life = (lives.get(replica.id, ""), uuid)
        if outcome.lives.setdefault(replica.id, life) != life:
            outcome.touched_running += 1
        node.ever.setdefault(replica.id, life[0])


def _jobs(acts: Sequence[Act]) -> set[str]:
    return {replica.job for act in acts for replica in act.desired.replicas}
