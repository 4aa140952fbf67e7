"""One drill: a script from its first act to its last, with one end of the agent on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.documents import DesiredReplicaState, GpuMode
from agents.drill.kill_points import Killed, KillSwitch, kill_points
from agents.drill.node import ENGINE_CALLS, NODE, DrillNode
from agents.drill.script import DrillStep, drill_script
from agents.runtime.base import ContainerPhase

# An act that needs more rounds than this does not converge at all.
MAX_ROUNDS = 12
EXPECTED_PHASES = {
    DesiredReplicaState.PREPARE: ContainerPhase.CREATED,
    DesiredReplicaState.STOP: ContainerPhase.EXITED,
}
Life = tuple[str, str]  # a running replica: which run of it this is, the UUID of its device


@dataclass
class DrillOutcome:
    """What one drill showed. `rounds`: the most that an act took after the agent's end."""

    points: int = 0
    killed_at: str = ""
    converged: bool = True
    rounds: int = 0
    orphans: int = 0
    double_starts: int = 0
    touched_running: int = 0
    stuck: str = ""
    lives: dict[str, Life] = field(default_factory=dict)


def run_drill(home: Path, kill_number: int) -> DrillOutcome:
    """The script with processes on a fresh node in `home`, with an end at point `lit` (0: none)."""
    node, fuse = DrillNode(home), KillSwitch(kill_number)
    try:
        with kill_points(fuse, ENGINE_CALLS):
            return run_steps(node, drill_script(NODE, node.gpu, str(node.starts)), fuse)
    finally:
        node.end()


def run_steps(node: DrillNode, steps: Sequence[DrillStep], switch: KillSwitch) -> DrillOutcome:
    """Every act in turn. `fuse` is in place, and the node is not ended."""
    outcome = DrillOutcome()
    for act in steps:
        _perform(node, act, switch, outcome)
        if outcome.converged:
            with switch.paused():
                _witness(node, act, outcome)
        if not outcome.converged:
            break
    with switch.paused():
        outcome.double_starts = node.second_starts(_jobs(steps))
        if outcome.converged:
            outcome.orphans = node.count_leftovers()
    outcome.points, outcome.killed_at = switch.passed, switch.killed_at
    return outcome


def _perform(node: DrillNode, act: DrillStep, fuse: KillSwitch, outcome: DrillOutcome) -> None:
    rounds, was_killed = 0, False
    while True:
        with fuse.paused():
            missing = _missing(node, act)
        if not missing:
            break
        if rounds == MAX_ROUNDS:
            outcome.converged, outcome.stuck = False, f"{act.name}: {missing}"
            break
        try:
            rounds += 1
            node.round(act.desired)
            if act.cleans_up and node.loop:
                node.loop.stop_jobs()
        except Killed:
            node.kill()
            rounds, was_killed = 0, True
    if was_killed:
        outcome.rounds = max(outcome.rounds, rounds)


def _missing(node: DrillNode, act: DrillStep) -> str:
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
        r.id: EXPECTED_PHASES.get(r.wish, ContainerPhase.RUNNING)
        for r in desired.replicas
        if r.id not in act.failing
    }
    if node.phases() != wanted:
        return f"replicas, there are {node.phases()}"
    if act.cleans_up and node.count_leftovers():
        return f"nothing, there are {node.count_leftovers()} things"
    return node.problem()


def _witness(node: DrillNode, act: DrillStep, outcome: DrillOutcome) -> None:
    """What ran in the act before and runs still is the same process on the same device."""
    lives, slices = node.run_ids(), node.slices()
    for replica in act.desired.replicas:
        if replica.id not in act.running:
            continue
        if not node.wait_for_start(replica):
            outcome.converged, outcome.stuck = False, f"{act.name}: {replica.id} never began"
        device = replica.devices[0]
        uuid = slices.get((device.start, device.profile), device.gpu_uuid)
        life = (lives.get(replica.id, ""), uuid)
        if outcome.lives.setdefault(replica.id, life) != life:
            outcome.touched_running += 1
        node.first_runs.setdefault(replica.id, life[0])


def _jobs(acts: Sequence[DrillStep]) -> set[str]:
    return {replica.job for act in acts for replica in act.desired.replicas}
