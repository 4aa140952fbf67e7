"""One agent, one node: the document comes true in the right order, also over an agent's death."""

import pytest

from agents.admission.policy import NodePolicy
from agents.combinations.sentences import without_nccl
from agents.combinations.shape import GangShape
from agents.contract.documents import (
    CollectiveBackend,
    DesiredReplicaState,
    ReplicaState,
    SliceKind,
)
from agents.contract.image_needs import ImageNeeds
from agents.contract.launcher_names import LauncherName
from agents.contract.wire_messages import to_wire
from agents.runtime.base import ContainerPhase, RuntimeFailure
from tests.unit.agents.nodes import a_document, obey, on_it

PREPARE, RUN, STOP = DesiredReplicaState.PREPARE, DesiredReplicaState.RUN, DesiredReplicaState.STOP


def states(machine):
    return {r.id: r.state for r in machine.reported[-1].replicas}


def events(machine):
    return [str(event.type) for event in machine.journal.unsent_events()]


def test_a_slice_is_carved_then_its_replica_prepared_then_started(machine):
    obey(machine.agent(), a_document(machine, on_it(machine)))
    slices = machine.slices()
    assert list(slices) == [(0, 0, "3g.71gb")]
    assert machine.runtime.story == [("prepare", "r-1", slices), ("start", "r-1", slices)]
    assert machine.runtime.devices["r-1"] == tuple(slices.values())
    assert states(machine) == {"r-1": ReplicaState.RUNNING}
    assert events(machine) == ["gpu.mode_changed", "slice.created"]


def test_a_refusal_reaches_the_portal_as_a_message(machine):
    fields = {"backend": CollectiveBackend.NCCL, "processes": 2, "launcher": LauncherName.TORCHRUN}
    obey(machine.agent(), a_document(machine, on_it(machine, **fields)))
    (seen,) = machine.reported[-1].replicas
    why = without_nccl(GangShape(frozenset((SliceKind.MIG,)), replicas=4))
    assert (seen.code, seen.sentence) == ("nccl_on_mig", why.text)
    assert seen.message == to_wire(why)


def test_containers_are_gone_before_their_slices_are_deleted_and_the_mode_changes(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    slices = machine.slices()
    obey(node, a_document(machine, profile="", revision=2))
    assert machine.runtime.story[2:] == [("stop", "r-1", slices)]
    assert machine.slices() == {}, "an ended container holds no slice"
    assert "r-1" in machine.runtime.by_replica, "its log is not shipped yet"
    assert events(machine)[2:] == ["slice.deleted", "gpu.mode_changed"]


def test_an_ended_container_stays_until_its_whole_log_is_shipped(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    machine.runtime.logs["r-1"] = b"loss 0.1\n"
    machine.journal.record_shipped({"r-1": 4})
    obey(node, a_document(machine, revision=2))
    assert states(machine) == {"r-1": ReplicaState.EXITED}
    machine.journal.record_shipped({"r-1": 9})
    obey(node)
    assert machine.runtime.by_replica == {} and states(machine) == {}
    assert machine.journal.started_replicas() == machine.journal.shipped_offsets().keys() == set()


def test_one_document_that_changes_a_profile_in_its_place_gives_the_new_slice(machine):
    node = machine.agent()
    obey(node, a_document(machine))
    old = machine.slices()[(0, 0, "3g.71gb")]
    replica = on_it(machine, profile="4g.71gb")
    obey(node, a_document(machine, replica, profile="4g.71gb", revision=2))
    new = machine.slices()
    assert list(new) == [(0, 0, "4g.71gb")]
    assert machine.runtime.devices["r-1"] == tuple(new.values()) != (old,)
    assert states(machine) == {"r-1": ReplicaState.RUNNING}


@pytest.mark.parametrize("profile", ["", "3g.71gb"])
def test_what_a_running_replica_was_given_stays_whatever_the_document_says(machine, profile):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine, profile=profile), profile=profile))
    before = machine.slices()
    other = "" if profile else "7g.141gb"
    taken = a_document(machine, on_it(machine, profile=profile), profile=other, size=8, revision=2)
    obey(node, taken)
    assert machine.slices() == before
    assert states(machine) == {"r-1": ReplicaState.RUNNING}
    assert [p.code for p in machine.reported[-1].problems] == ["in_use"]


def test_nobody_runs_before_run_is_wished(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine, PREPARE)))
    assert states(machine) == {"r-1": ReplicaState.READY}
    (told,) = machine.reported[-1].replicas
    assert (told.address, told.port) == ("10.0.0.1", 29_500)
    obey(node, a_document(machine, on_it(machine, RUN, rendezvous=None), revision=2))
    assert states(machine) == {"r-1": ReplicaState.READY}
    obey(node, a_document(machine, on_it(machine, RUN), revision=3))
    assert states(machine) == {"r-1": ReplicaState.RUNNING}


@pytest.mark.parametrize("killed", [False, True])
def test_a_stopped_attempt_never_starts_again(machine, killed):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    obey(node, a_document(machine, on_it(machine, STOP), revision=2))
    assert states(machine) == {"r-1": ReplicaState.EXITED}
    node = machine.agent() if killed else node
    obey(node, a_document(machine, on_it(machine, RUN), revision=3))
    assert [what for what, *_ in machine.runtime.story].count("start") == 1


def test_a_killed_agent_adopts_what_runs_and_does_it_once(machine):
    obey(machine.agent(), a_document(machine, on_it(machine)))
    story, slices = list(machine.runtime.story), machine.slices()
    obey(machine.agent(), contact=False)
    assert (machine.runtime.story, machine.slices()) == (story, slices)
    assert states(machine) == {"r-1": ReplicaState.RUNNING}


def test_a_container_that_vanished_while_the_agent_was_dead_is_told_not_made_again(machine):
    obey(machine.agent(), a_document(machine, on_it(machine)))
    machine.runtime.by_replica.clear()
    obey(machine.agent())
    (told,) = machine.reported[-1].replicas
    assert (told.state, told.code) == (ReplicaState.FAILED, "vanished")
    assert [what for what, *_ in machine.runtime.story] == ["prepare", "start"]


def test_an_agent_that_has_not_heard_the_portal_takes_nothing_away(machine):
    obey(machine.agent(), a_document(machine, on_it(machine)))
    node = machine.agent()
    obey(node, a_document(machine, revision=2), contact=False)
    assert states(machine) == {"r-1": ReplicaState.RUNNING}
    obey(node)
    assert machine.runtime.story[-1][:2] == ("stop", "r-1")


def test_an_older_fence_is_refused_also_by_the_next_agent(machine):
    obey(machine.agent(), a_document(machine, on_it(machine, id="r-9", fence=9)))
    machine.runtime.becomes("r-9", ContainerPhase.EXITED, exit_code=0)
    obey(machine.agent(), a_document(machine, on_it(machine, id="r-8", fence=8), revision=2))
    assert "r-8" not in machine.runtime.by_replica
    told = {r.id: r.code for r in machine.reported[-1].replicas}
    assert told["r-8"] == "fence_stale"


def test_what_the_policy_refuses_is_told_and_never_prepared(machine):
    obey(machine.agent(NodePolicy(images=("only/*",))), a_document(machine, on_it(machine)))
    (told,) = machine.reported[-1].replicas
    assert (told.state, told.code) == (ReplicaState.FAILED, "policy")
    assert machine.runtime.story == []


def test_an_image_that_needs_another_driver_is_refused_before_anything_is_made(machine):
    needs = ImageNeeds(("cuda>=99.1",))
    machine.runtime.needs = {"team/newer:1": needs}
    obey(machine.agent(), a_document(machine, on_it(machine, image="team/newer:1")))
    (told,) = machine.reported[-1].replicas
    assert (told.state, told.code, told.image_needs) == (ReplicaState.FAILED, "image_unfit", needs)
    assert "team/newer:1 needs a driver for CUDA 99.1; this node has CUDA 13.0" in told.sentence
    assert told.message is not None and machine.runtime.story == []


def test_what_an_image_needs_and_the_node_has_is_reported(machine):
    needs = ImageNeeds(("cuda>=12.4",))
    machine.runtime.needs = {"team/newer:1": needs}
    obey(machine.agent(), a_document(machine, on_it(machine, image="team/newer:1")))
    (told,) = machine.reported[-1].replicas
    assert (told.state, told.image_needs) == (ReplicaState.RUNNING, needs)
    assert machine.reported[-1].facts.architecture in ("amd64", "arm64")


def test_a_replica_that_cannot_be_prepared_is_told_once_and_not_tried_again(machine):
    machine.runtime.broken.add("r-1")
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    machine.runtime.broken.clear()
    obey(node)
    (told,) = machine.reported[-1].replicas
    assert (told.state, told.code, told.sentence) == (
        ReplicaState.FAILED,
        "image_pull",
        "no such image",
    )
    assert machine.runtime.story == []


def test_an_empty_document_that_would_end_most_work_is_held_until_an_admin_allows_it(machine):
    node = machine.agent()
    crowd = [on_it(machine, id=f"r-{n}", job=f"j-{n}", devices=()) for n in range(3)]
    obey(node, a_document(machine, *crowd))
    empty = {"revision": 2}
    assert not node.accept(a_document(machine, **empty))
    obey(node)
    assert set(states(machine).values()) == {ReplicaState.RUNNING}
    assert node.desired.revision == machine.journal.desired().revision == 1
    assert events(machine)[-1] == "agent.holding"
    obey(node, a_document(machine, **empty, allow_mass_removal=True))
    assert set(states(machine).values()) == {ReplicaState.EXITED}


def test_a_document_is_taken_or_held_also_while_the_engine_is_silent(machine, monkeypatch):
    node = machine.agent()
    crowd = [on_it(machine, id=f"r-{n}", job=f"j-{n}", devices=()) for n in range(3)]
    obey(node, a_document(machine, *crowd))

    def silent():
        raise RuntimeFailure("docker", "timed out")

    monkeypatch.setattr(machine.runtime, "containers", silent)
    assert not node.accept(a_document(machine, revision=2)), "as it was last seen, all of it runs"
    assert node.accept(a_document(machine, *crowd, revision=2))
    assert node.desired.revision == 2


def test_a_node_at_rest_says_nothing_and_does_nothing(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    told, story = len(machine.reported), len(machine.runtime.story)
    seen = events(machine)
    obey(node)
    assert (len(machine.reported), len(machine.runtime.story), events(machine)) == (
        told,
        story,
        seen,
    )


def test_the_log_of_a_container_that_a_person_removed_goes_with_its_replica(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    machine.runtime.logs["r-1"] = b"half a log"
    del machine.runtime.by_replica["r-1"]
    obey(node)
    assert states(machine) == {"r-1": ReplicaState.FAILED}
    obey(node, a_document(machine, revision=2))
    assert machine.runtime.logs == {}
    assert machine.journal.failures() == {}


def test_silence_of_the_engine_is_reported_once_and_ends_with_the_next_answer(machine):
    """The node takes no new work meanwhile; its replicas stay as they were last seen."""
    node = machine.agent()
    node.report_silence("it never answered yet")
    assert machine.reported == [], "nothing is known that could be reported"
    obey(node, a_document(machine, on_it(machine)))
    reports = len(machine.reported)
    node.report_silence("connection refused")
    node.report_silence("connection refused")
    assert len(machine.reported) == reports + 1
    (block,) = machine.reported[-1].facts.blocks
    assert "connection refused" in block
    assert states(machine) == {"r-1": ReplicaState.RUNNING}
    obey(node)
    assert machine.reported[-1].facts.blocks == ()
    assert states(machine) == {"r-1": ReplicaState.RUNNING}


def test_a_demonstration_that_ends_stops_and_removes_what_runs(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    node.stop_jobs()
    assert [word for word, *_ in machine.runtime.story][-2:] == ["stop", "remove"]
    assert machine.runtime.containers() == {}


def test_the_environment_of_an_ended_replica_leaves_the_disk_while_the_portal_is_away(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine, env={"HF_TOKEN": "a-secret-of-the-job"})))
    assert "HF_TOKEN" in disk_of(machine)
    machine.runtime.ends("r-1", 0)
    obey(node)
    assert "HF_TOKEN" not in disk_of(machine) and "a-secret-of-the-job" not in disk_of(machine)
    assert machine.runtime.story[-1][:2] == ("start", "r-1"), "it does not run again for that"


def disk_of(machine):
    files = machine.folder.glob("**/journal.sqlite3*")
    return "".join(at.read_bytes().decode("latin-1") for at in files)


def test_the_containers_are_listed_only_where_they_may_have_changed(machine, monkeypatch):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    lists, plain = [], machine.runtime.containers
    monkeypatch.setattr(machine.runtime, "containers", lambda: lists.append(1) or plain())
    assert node.accept(a_document(machine, on_it(machine), revision=2))
    assert len(lists) == 0, "a document that goes forward and names a replica ends little"
    node.round()
    assert len(lists) == 1, "nothing was begun"
