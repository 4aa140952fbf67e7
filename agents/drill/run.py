"""One drill: all steps of a script, with one kill of the agent on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.documents import DesiredReplicaState, GpuMode
from agents.drill.kill_points import Killed, KillSwitch, kill_points
from agents.drill.node import ENGINE_CALLS, NODE, DrillNode, LoopWaits
from agents.drill.overlap import OverlappingRefresh
from agents.drill.script import DrillStep, drill_script
from agents.runtime.base import ContainerPhase

# A step that needs more rounds than this does not converge.
MAX_ROUNDS = 12
EXPECTED_PHASES = {
    DesiredReplicaState.PREPARE: ContainerPhase.CREATED,
    DesiredReplicaState.STOP: ContainerPhase.EXITED,
}
# Of a running replica: its run id, and the UUIDs of its devices.
Run = tuple[str, ...]


@dataclass
class DrillOutcome:
    """The result of one drill."""

    points: int = 0
    killed_at: str = ""
    converged: bool = True
    # The most rounds that a step took after the kill.
    rounds: int = 0
    orphans: int = 0
    double_starts: int = 0
    touched_running: int = 0
    # Refreshes beside a partition change that failed, waited, or found a GPU unhealthy.
    collisions: int = 0
    stuck: str = ""
    runs: dict[str, Run] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        broken = self.orphans + self.double_starts + self.touched_running + self.collisions
        return self.converged and not broken


def run_drill(home: Path, kill_number: int) -> DrillOutcome:
    """The script with processes on a fresh node in `home`, killed at a point (0: no kill)."""
    node, switch = DrillNode(home), KillSwitch(kill_number)
    try:
        with kill_points(switch, ENGINE_CALLS):
            return run_steps(node, drill_script(NODE, node.gpu, str(node.starts)), switch)
    finally:
        node.end()


def run_steps(node: DrillNode, steps: Sequence[DrillStep], switch: KillSwitch) -> DrillOutcome:
    """Every step in turn. The switch is in place; the caller ends the node."""
    outcome = DrillOutcome()
    overlap = OverlappingRefresh(lambda: node.loop.hardware if node.loop else None, switch)
    with overlap.installed():
        for step in steps:
            if step.event is not None:
                with switch.paused():
                    node.suffer(step.event)
            _perform(node, step, switch, outcome)
            if outcome.converged:
                with switch.paused():
                    _witness(node, step, outcome)
            if not outcome.converged:
                break
    outcome.collisions = len(overlap.collisions)
    outcome.stuck = outcome.stuck or next(iter(overlap.collisions), "")
    with switch.paused():
        outcome.double_starts = node.second_starts(_jobs(steps))
        if outcome.converged:
            outcome.orphans = node.count_leftovers()
    outcome.points, outcome.killed_at = switch.passed, switch.killed_at
    return outcome


def _perform(node: DrillNode, step: DrillStep, switch: KillSwitch, outcome: DrillOutcome) -> None:
    rounds, was_killed = 0, False
    while True:
        with switch.paused():
            missing = _missing(node, step)
        if not missing:
            break
        if rounds == MAX_ROUNDS:
            outcome.converged, outcome.stuck = False, f"{step.name}: {missing}"
            break
        try:
            rounds += 1
            if step.images_arrive:
                node.images.arrive()
            node.round(step.desired)
            if step.cleans_up and node.loop:
                node.loop.stop_jobs()
        except Killed:
            node.kill()
            rounds, was_killed = 0, True
        except LoopWaits as waits:
            outcome.converged, outcome.stuck = False, f"{step.name}: {waits}"
            break
    if was_killed:
        outcome.rounds = max(outcome.rounds, rounds)


def _missing(node: DrillNode, step: DrillStep) -> str:
    """What the step requires and the node does not have yet; empty if nothing is missing."""
    desired = step.desired
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
    if {replica: failure.code for replica, failure in failures.items()} != step.failing:
        return f"failures, there are {failures}"
    wanted = {
        r.id: EXPECTED_PHASES.get(r.wish, ContainerPhase.RUNNING)
        for r in desired.replicas
        if r.id not in step.failing and r.image not in step.pulling
    }
    # A replica that failed may have its container, until its log is shipped.
    phases = {key: phase for key, phase in node.phases().items() if key not in step.failing}
    if phases != wanted:
        return f"replicas, there are {phases}"
    if node.pulled_images() != sorted(step.pulling):
        return f"pulls, there are {node.pulled_images()}"
    if step.cleans_up and node.count_leftovers():
        return f"nothing, there are {node.count_leftovers()} things"
    return node.problem()


def _witness(node: DrillNode, step: DrillStep, outcome: DrillOutcome) -> None:
    """Checks that a replica that keeps running is the same process on the same device."""
    run_ids, slices = node.run_ids(), node.slices()
    for replica in step.desired.replicas:
        if replica.id not in step.running:
            continue
        if not node.wait_for_start(replica):
            outcome.converged, outcome.stuck = False, f"{step.name}: {replica.id} never began"
        given = [slices.get((d.start, d.profile), d.gpu_uuid) for d in replica.devices]
        run = (run_ids.get(replica.id, ""), *given)
        if outcome.runs.setdefault(replica.id, run) != run:
            outcome.touched_running += 1
        node.first_runs.setdefault(replica.id, run[0])


def _jobs(steps: Sequence[DrillStep]) -> set[str]:
    return {replica.job for step in steps for replica in step.desired.replicas}
