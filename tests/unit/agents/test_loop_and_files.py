"""The loop asks once for what takes long: files that are fetched, a last checkpoint, secrets."""

from dataclasses import replace

from agents.contract.documents import DesiredReplicaState, ReplicaState
from agents.files.inputs import InputsAway
from agents.files.replica_files import NoFiles
from agents.job_secrets.delivery import SecretsAway
from agents.runtime.base import ContainerPhase
from tests.unit.agents.nodes import a_document, obey, on_it

STOP = DesiredReplicaState.STOP


class SlowFiles(NoFiles):
    """Each fetch and each last checkpoint takes as long as the test likes."""

    def __init__(self):
        self.asked, self.is_fetched, self.unsent = 0, False, frozenset()

    def deliver(self, replica, make_folders):
        self.asked += 1
        if not self.is_fetched:
            raise InputsAway("on their way")

    def fetching(self, replicas):
        return frozenset({"r-1"}) if self.asked and not self.is_fetched else frozenset()

    def settling(self):
        return self.unsent

    def settle(self, containers):
        return {
            key: replace(seen, phase=ContainerPhase.RUNNING) if key in self.unsent else seen
            for key, seen in containers.items()
        }


def test_a_replica_is_prepared_once_its_files_are_there_and_asked_for_once(machine):
    node, files = machine.agent(), SlowFiles()
    node.files = files
    obey(node, a_document(machine, on_it(machine)))
    assert (files.asked, machine.runtime.story) == (1, [])
    files.is_fetched = True
    obey(node)
    assert [what for what, *_ in machine.runtime.story] == ["prepare", "start"]


def test_a_replica_that_has_ended_is_not_stopped_while_its_checkpoint_is_sent(machine):
    node, files = machine.agent(), SlowFiles()
    node.files, files.is_fetched = files, True
    obey(node, a_document(machine, on_it(machine)))
    obey(node, a_document(machine, on_it(machine, wish=STOP), revision=2))
    stopped_at = machine.journal.stops()["r-1"].at
    files.unsent = frozenset({"r-1"})
    obey(node)
    assert machine.reported[-1].replicas[0].state is ReplicaState.RUNNING
    assert machine.journal.stops()["r-1"].at == stopped_at
    files.unsent = frozenset()
    obey(node)
    assert machine.reported[-1].replicas[0].state is ReplicaState.EXITED


def test_a_portal_that_is_away_is_not_asked_for_secrets_with_each_round(machine):
    asked = []

    class Away:
        def deliver(self, replica):
            asked.append(replica.id)
            raise SecretsAway("the portal does not answer")

        def keep(self, replicas):
            pass

    node = machine.agent()
    node.secrets = Away()
    obey(node, a_document(machine, on_it(machine)))
    assert len(asked) <= 2


def test_the_folders_of_a_replica_without_its_container_are_there_until_its_output_is_taken(
    machine,
):
    """Its container was removed by a person, and the portal wants it no more."""
    node, kept = machine.agent(), []
    obey(node, a_document(machine, on_it(machine)))
    machine.runtime.by_replica.clear()
    machine.runtime.keep = lambda replicas: kept.append(set(replicas))
    taken = []
    node.before_removal = [lambda replica: taken.append((replica, len(kept)))]
    obey(node, a_document(machine, revision=2))
    ((replica, rounds),) = taken
    assert replica == "r-1"
    # The round that begins the removal goes on while another thread removes.
    assert all("r-1" in each for each in kept[: rounds + 1])
    assert "r-1" not in kept[-1]
