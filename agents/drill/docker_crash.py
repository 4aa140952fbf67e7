"""The drill with containers, beside a container that must stay untouched."""

import contextlib
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from docker import DockerClient
from docker.errors import DockerException, ImageNotFound

from agents.drill.crash import DrillReport
from agents.drill.docker_node import DockerDrillNode, remove_all, run_id
from agents.drill.docker_script import docker_script
from agents.drill.kill_points import journal_kill_points
from agents.drill.run import DrillOutcome, run_steps
from agents.drill.threaded_kill_points import Point, ThreadedKillSwitch
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_engine import connect_engine
from agents.runtime.docker_recipe import LABEL

IMAGE = "tessera-example:latest"
# Drills on one engine may remove each other's empty networks; then a round has one call less.
MAX_TRIES = 3


class NoEngine(Exception):
    """No engine responds, or it lacks the image: one sentence that says what to do."""


def docker_drill(*, image: str = IMAGE, every: int = 1, workers: int = 1) -> DrillReport:
    """Kill the agent at every `every`th engine call and journal write, each time on a fresh node on
    the engine of DOCKER_HOST. Everything created there is removed at the end.

    Raises NoEngine, and RuntimeError if the script fails even without a kill.
    """
    drill = f"d{secrets.token_hex(2)}"[:4]
    with tempfile.TemporaryDirectory(prefix="tessera-drill-") as folder, _engine(image) as client:
        try:
            return _drill(client, Path(folder), drill, image, every, workers)
        finally:
            remove_all(client, drill)


def run_docker_drill(
    home: Path, name: str, image: str, kill_point: Point | None
) -> tuple[DrillOutcome, dict[Point, str]]:
    """One drill with a kill at `kill_point` (None: no kill), and the points passed, by name."""
    switch = ThreadedKillSwitch(kill_point)
    node = DockerDrillNode(home / name, name, switch)
    try:
        with journal_kill_points(switch):
            outcome = run_steps(node, docker_script(name, node.gpu, image), switch)
    finally:
        node.end()
    return outcome, switch.points


def _drill(
    client: DockerClient, folder: Path, drill: str, image: str, every: int, workers: int
) -> DrillReport:
    baseline, points = run_docker_drill(folder, f"{drill}baseline", image, None)
    if not baseline.converged:
        raise RuntimeError(f"the script fails even without a kill: {baseline.stuck}")
    neighbour = client.containers.run(
        image,
        ["sh", "-c", "sleep 100000"],
        detach=True,
        init=True,
        name=f"tessera-{drill}-neighbour",
        labels={f"{LABEL}node": f"{drill}-neighbour", f"{LABEL}job": f"{drill}-neighbour"},
    )
    neighbour.reload()
    before = run_id(neighbour)
    report = DrillReport()
    for outcome in _outcomes(folder, drill, image, list(points)[::every], workers):
        report.add(outcome)
    neighbour.reload()
    report.touched_running += run_id(neighbour) != before
    return report


def _outcomes(
    folder: Path, drill: str, image: str, points: Sequence[Point], workers: int
) -> Iterator[DrillOutcome]:
    numbered = list(enumerate(points))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(_at, folder, drill, image), numbered)


def _at(folder: Path, drill: str, image: str, numbered: tuple[int, Point]) -> DrillOutcome:
    """Tries again if another drill made a round shorter, so that the point was not reached."""
    number, point = numbered
    for time in range(MAX_TRIES):
        outcome = run_docker_drill(folder, f"{drill}{time}{number:03x}", image, point)[0]
        if outcome.killed_at or not outcome.converged:
            break
    else:
        outcome.converged, outcome.stuck = False, f"{point} was never reached"
    return outcome


@contextlib.contextmanager
def _engine(image: str) -> Iterator[DockerClient]:
    try:
        client = connect_engine().client
    except RuntimeFailure as failure:
        raise NoEngine(f"{failure}; start one or set DOCKER_HOST") from failure
    try:
        client.images.get(image)
    except ImageNotFound as error:
        client.close()
        raise NoEngine(f"the engine has no image {image}: pull it or choose another") from error
    except (DockerException, OSError) as error:
        client.close()
        raise NoEngine(f"the Docker Engine does not list its images: {error}") from error
    try:
        yield client
    finally:
        client.close()
