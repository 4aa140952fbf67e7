"""Who ended a replica. What the lease, the agent, the engine or the node ended is never reported
as the program's own end, however well it took its SIGTERM; what ended by itself stays that."""

import math
import time

import pytest

import agents.loop.node
from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplicaState, ReplicaState
from agents.contract.end_causes import EndCause, ExcessCause
from agents.contract.wire_messages import from_wire
from agents.runtime.base import ContainerPhase
from tests.unit.agents.nodes import a_document, obey, on_it

STOPS = NodePolicy(on_lease_end="stop")
KEEPS = NodePolicy(on_lease_end="keep")
PREPARE, STOP = DesiredReplicaState.PREPARE, DesiredReplicaState.STOP


@pytest.fixture
def boots(monkeypatch):
    """The boot id of the agents that start from now on."""
    now = {"id": "boot-1"}
    monkeypatch.setattr(agents.loop.node, "boot_id", lambda: now["id"])
    return now


def reported(machine):
    (replica,) = machine.reported[-1].replicas
    return replica.state, replica.code, replica.exit_code


def running(machine, policy=None, **fields):
    node = machine.agent(policy)
    obey(node, a_document(machine, on_it(machine, **fields)))
    assert machine.reported[-1].replicas[0].state is ReplicaState.RUNNING
    return node


def failed(cause):
    return ReplicaState.FAILED, str(cause), None


OWN = (ReplicaState.EXITED, "", 0)


def test_a_program_that_ended_by_itself_while_no_agent_ran_has_its_own_end(machine, boots):
    running(machine)
    machine.runtime.ends("r-1", 0)
    obey(machine.agent())
    assert reported(machine) == OWN


@pytest.mark.parametrize("exit_code", [0, 137, 143, 255])
def test_what_ended_before_the_engine_served_again_was_ended_by_it(machine, boots, exit_code):
    node = running(machine)
    machine.runtime.ends("r-1", exit_code)
    machine.runtime.since = time.time() + 1
    obey(node)
    assert reported(machine) == failed(EndCause.ENGINE_RESTARTED)
    (replica,) = machine.reported[-1].replicas
    assert from_wire(replica.message, "") == EndCause.ENGINE_RESTARTED.message


@pytest.mark.parametrize("exit_code", [0, 137, 143, 255])
def test_what_ended_under_another_boot_was_ended_by_it(machine, boots, exit_code):
    running(machine)
    machine.runtime.ends("r-1", exit_code)
    boots["id"] = "boot-2"
    obey(machine.agent())
    assert reported(machine) == failed(EndCause.NODE_RESTARTED)


def test_an_end_that_the_agent_saw_stays_its_own_over_a_reboot(machine, boots):
    node = running(machine)
    machine.runtime.ends("r-1", 0)
    node.round()
    machine.runtime.since, boots["id"] = math.inf, "boot-2"
    obey(machine.agent())
    assert reported(machine) == OWN


def test_an_end_is_kept_while_its_log_is_still_copied(machine, boots):
    """The runtime reports it as running until then."""
    node = running(machine)
    machine.runtime.becomes("r-1", ContainerPhase.RUNNING, finished_at=time.time())
    node.round()
    assert machine.reported[-1].replicas[0].state is ReplicaState.RUNNING
    machine.runtime.ends("r-1", 0)
    boots["id"] = "boot-2"
    obey(machine.agent())
    assert reported(machine) == OWN


def test_a_stop_that_the_portal_wants_is_no_fault_of_the_node(machine, boots):
    node = running(machine)
    obey(node, a_document(machine, on_it(machine, STOP), revision=2))
    machine.runtime.since, boots["id"] = math.inf, "boot-2"
    obey(machine.agent())
    assert reported(machine) == (ReplicaState.EXITED, "", 143)


def test_what_writes_more_than_its_disk_is_stopped_and_has_failed_by_it(machine):
    node = running(machine)
    machine.runtime.used["r-1"] = node.policy.default_disk_mib << 20
    node._disk.measure()
    obey(node)
    assert machine.reported[-1].replicas[0].state is ReplicaState.RUNNING
    machine.runtime.used["r-1"] += 1
    node._disk.measure()
    obey(node)
    assert reported(machine) == failed(ExcessCause.DISK_FULL)
    obey(machine.agent())
    assert reported(machine) == failed(ExcessCause.DISK_FULL)


def test_the_end_of_the_lease_stops_with_the_jobs_own_grace_period(machine):
    node = running(machine, STOPS, grace_seconds=120)
    end_lease(node)
    node.round()
    node.round()
    assert machine.runtime.graces == [("r-1", 120)]
    assert reported(machine) == failed(EndCause.LEASE_OVER)


def test_a_program_that_saves_and_exits_with_0_at_the_end_of_the_lease_is_not_done(machine):
    node = running(machine, STOPS)
    machine.runtime.stop = lambda replica, grace: machine.runtime.ends(replica, 0)
    end_lease(node)
    obey(node, contact=False)
    assert reported(machine) == failed(EndCause.LEASE_OVER)


def test_a_stop_that_was_cut_off_is_carried_out_by_the_next_agent(machine):
    """The program may have had its signal, so it must not run on, also with contact again."""
    node = running(machine, STOPS, grace_seconds=120)

    def dies(replica, grace):
        raise KeyboardInterrupt

    plain, machine.runtime.stop = machine.runtime.stop, dies
    end_lease(node)
    with pytest.raises(KeyboardInterrupt):
        node.round()
    machine.runtime.stop = plain
    obey(machine.agent(STOPS))
    assert machine.runtime.graces == [("r-1", 120)]
    assert reported(machine) == failed(EndCause.LEASE_OVER)


def test_what_ended_before_the_lease_did_has_its_own_end(machine):
    node = running(machine, STOPS)
    end_lease(node)
    plain = machine.runtime.stop

    def too_late(replica, grace):
        machine.runtime.ends(replica, 0, at=time.time() - 60)
        plain(replica, grace)

    machine.runtime.stop = too_late
    obey(node, contact=False)
    assert reported(machine) == OWN


def test_an_agent_that_starts_out_of_contact_knows_the_lease_of_the_one_before(machine, boots):
    node = running(machine, STOPS)
    end_lease(node)
    obey(machine.agent(STOPS), contact=False)
    assert reported(machine) == failed(EndCause.LEASE_OVER)


def test_a_lease_ends_with_the_boot(machine, boots):
    """Seconds since boot begin anew, and nothing runs: there is nothing to stop or to start."""
    node = machine.agent(STOPS)
    obey(node, a_document(machine, on_it(machine, PREPARE)))
    boots["id"] = "boot-2"
    node = machine.agent(STOPS)
    obey(node, a_document(machine, on_it(machine), revision=2), contact=False)
    assert machine.runtime.by_replica["r-1"].phase is ContainerPhase.CREATED
    obey(node)
    assert machine.runtime.by_replica["r-1"].phase is ContainerPhase.RUNNING


def test_a_node_that_keeps_its_work_ends_none_and_starts_none(machine):
    node = running(machine, KEEPS)
    second = on_it(machine, id="r-2", job="j-2", devices=())
    end_lease(node)
    obey(node, a_document(machine, on_it(machine), second, revision=2), contact=False)
    phases = {key: seen.phase for key, seen in machine.runtime.by_replica.items()}
    assert phases == {"r-1": ContainerPhase.RUNNING, "r-2": ContainerPhase.CREATED}
    obey(node)
    assert machine.runtime.by_replica["r-2"].phase is ContainerPhase.RUNNING


def test_what_an_agent_ends_as_it_stops_is_reported_by_the_next_one(machine):
    node = running(machine, grace_seconds=7)
    node.stop_jobs()
    assert machine.runtime.graces == [("r-1", 7)]
    obey(machine.agent())
    assert reported(machine) == failed(EndCause.AGENT_STOPPED)


def end_lease(node):
    """The last contact was before all that `obey` pretended."""
    node.journal.store_fact("lease", f"{node.boot_id} 0.0")
    node.lease = type(node.lease)(node.journal, node.boot_id)


def test_what_has_failed_stays_failed_when_the_portal_no_longer_wants_it(machine, boots):
    """Its container stays until its log is shipped."""
    node = running(machine)
    machine.runtime.logs["r-1"] = b"saved\n"
    machine.runtime.ends("r-1", 0)
    boots["id"] = "boot-2"
    node = machine.agent()
    obey(node, a_document(machine, revision=2))
    assert reported(machine) == failed(EndCause.NODE_RESTARTED)
