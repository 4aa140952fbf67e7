"""Small clusters and recorded weeks for what-ifs, shortly."""

from dataclasses import replace

from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import OwnerView
from scheduler.virtual.devices import emptied_nodes
from scheduler.virtual.job_outcomes import demand_mix
from scheduler.virtual.simulation import Simulation
from scheduler.virtual.values import RecordedJob, RecordedWindow, Scenario
from scheduler.what_if.comparison import compare
from scheduler.what_if.outcome import replay_figures
from tests.support.snapshots import a_gpu, a_job, a_node

SINCE = 1_000_000
HOUR = 3_600
UNTIL = SINCE + 7 * 24 * HOUR


def a_recorded(id, ran=HOUR, *, at=0, waited=0, **fields):
    """A job that was queued `at` seconds into the window and ran so long."""
    known = {"completed", "withdrawn_at", "was_running", "is_counted"}
    own = {name: fields.pop(name) for name in known & fields.keys()}
    job = a_job(id, **{"queued_at": SINCE + at, "time_limit_seconds": 4 * HOUR} | fields)
    return RecordedJob(job, ran, waited_seconds=waited, **own)


def a_window(*jobs):
    return RecordedWindow(SINCE, UNTIL, tuple(jobs))


def a_scenario(*nodes, quotas=(), owners=(), dwell_seconds=0, **policy):
    return Scenario(
        emptied_nodes(nodes or (a_node(a_gpu(), a_gpu()),)),
        tuple(quotas),
        Policy(**policy),
        tuple(owners),
        dwell_seconds,
    )


def an_owner(project="p", user="", **fields):
    return OwnerView(project, user, **fields)


def played(scenario, window, watch=None):
    """The simulation afterwards."""
    simulation = Simulation(scenario, window, mix=demand_mix(window.jobs), observer=watch)
    simulation.run()
    return simulation


def outcome(scenario, window):
    return replay_figures(played(scenario, window), window)


def compared(scenario, window, *changes):
    return compare(scenario, window, changes)


def away(node):
    return replace(node, available=False, unavailable_reason=f"{node.name} is lost")
