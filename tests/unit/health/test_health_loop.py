"""A whole node with faults injected into its driver: what fails, what goes on, what is told."""

import os
import threading
from contextlib import contextmanager

import pytest

from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredSlice,
    GpuMode,
    Rendezvous,
    ReplicaState,
    SliceKind,
)
from agents.facts.gpu_health import DriverEvent, EventKind
from agents.health.affected_replicas import CODE
from agents.runtime.base import ContainerPhase, RuntimeFailure
from agents.simdriver.faults import attach_client, detach_client
from agents.simdriver.health import clear_health, inject_lost, inject_xid
from tests.unit.agents.documents import a_device, a_replica

MEETING = Rendezvous("10.0.0.1", 29_500)
RUNNING, FAILED, EXITED = ReplicaState.RUNNING, ReplicaState.FAILED, ReplicaState.EXITED
STARTS = (0, 1, 2)
ROUNDS = 8
SECONDS = 60  # a bound for what never comes; nothing waits so long


def on_slice(machine, start, gpu=0, **fields):
    place = {"gpu_uuid": machine.gpus[gpu], "profile": "1g.18gb", "start": start, "size": 1}
    name = f"{gpu}-{start}"
    whole = {"id": f"r-{name}", "job": f"j-{name}", "rendezvous": MEETING, "fence": 1}
    return a_replica(**whole | {"devices": (a_device(**place),)} | fields)


def on_gpu(machine, gpu, **fields):
    place = {"gpu_uuid": machine.gpus[gpu], "profile": "", "start": 0, "size": 8}
    device = a_device(**place, kind=SliceKind.GPU)
    whole = {"id": f"g-{gpu}", "job": f"jg-{gpu}", "rendezvous": MEETING, "processes": 1}
    return a_replica(**whole | {"devices": (device,)} | fields)


def a_document(machine, *replicas, revision=1, slices=STARTS):
    """The first GPU in slices, the second whole."""
    modes = (GpuMode.MIG if slices else GpuMode.WHOLE, GpuMode.WHOLE)
    return DesiredDocument(
        node="n-1",
        revision=revision,
        gpus=tuple(DesiredGpu(*pair) for pair in zip(machine.gpus, modes, strict=True)),
        slices=tuple(
            DesiredSlice(f"s-{start}", machine.gpus[0], "1g.18gb", start, 1) for start in slices
        ),
        replicas=replicas,
    )


def obey(node, document=None):
    if document is not None:
        assert node.accept(document)
    node.renew_lease(float("inf"))
    for _ in range(ROUNDS):
        node.hardware.refresh()
        node.round()


@pytest.fixture
def full(machine):
    """Three slices and one whole GPU, each with a replica that runs."""
    node = machine.agent()
    replicas = [on_slice(machine, start) for start in STARTS] + [on_gpu(machine, 1)]
    obey(node, a_document(machine, *replicas))
    assert set(states(machine).values()) == {RUNNING}
    return node


def states(machine):
    return {r.id: r.state for r in machine.reported[-1].replicas}


def replica_report(machine, replica):
    return next(r for r in machine.reported[-1].replicas if r.id == replica)


def gpu(machine, index):
    return machine.reported[-1].gpus[index]


def instance_at(machine, start):
    found = machine.nvml.instances(machine.gpus[0])
    return next(i.instance_id for i in found if i.start == start)


@contextmanager
def listening(node):
    """The watch's own thread; inside, `wait` returns when it has told something."""
    rung = threading.Semaphore(0)
    node.hardware.watch.on_change = rung.release

    def wait():
        assert rung.acquire(timeout=SECONDS), "the watch heard nothing"

    node.hardware.watch.start()
    try:
        yield wait
    finally:
        node.hardware.watch.stop()


def inject(machine, xid, index, *instance):
    with machine.store.change() as state:
        inject_xid(state, state.gpus[index], xid, *instance)


def clear(machine, index):
    with machine.store.change() as state:
        clear_health(state, state.gpus[index])


@pytest.mark.parametrize("start", STARTS)
def test_a_contained_error_ends_the_replica_on_that_slice_and_no_other(machine, full, start):
    with listening(full) as wait:
        inject(machine, 94, 0, instance_at(machine, start), 0)
        wait()
    obey(full)
    hit = replica_report(machine, f"r-0-{start}")
    assert (hit.state, hit.code) == (FAILED, CODE)
    assert "XID 94 on GPU 0" in hit.sentence
    others = {key: state for key, state in states(machine).items() if key != hit.id}
    assert set(others.values()) == {RUNNING}
    assert gpu(machine, 0).healthy
    assert machine.runtime.by_replica[hit.id].phase is ContainerPhase.EXITED


def test_a_contained_error_of_a_whole_gpu_ends_its_replica_and_leaves_the_gpu_in_service(
    machine, full
):
    full.hardware.watch.record(DriverEvent(machine.gpus[1], EventKind.XID, 94, None, None))
    obey(full)
    assert replica_report(machine, "g-1").code == CODE
    assert [r for r, state in states(machine).items() if state is FAILED] == ["g-1"]
    assert gpu(machine, 1).healthy
    obey(full, a_document(machine, on_gpu(machine, 1, id="g-9", job="j-9"), revision=2))
    assert states(machine)["g-9"] is RUNNING, "one event fails nobody twice"


def test_a_contained_error_that_names_no_slice_of_a_divided_gpu_ends_nobody(machine, full):
    full.hardware.watch.record(DriverEvent(machine.gpus[0], EventKind.XID, 94, None, None))
    obey(full)
    assert set(states(machine).values()) == {RUNNING}


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_an_error_of_a_program_changes_nothing(machine, full, xid):
    said = len(machine.reported)
    full.hardware.watch.record(DriverEvent(machine.gpus[1], EventKind.XID, xid, None, None))
    obey(full)
    assert len(machine.reported) == said


def test_a_row_to_be_replaced_gives_no_new_work_lets_go_on_and_ends_with_a_reset(machine, full):
    with listening(full) as wait:
        inject(machine, 63, 1)
        wait()
    obey(full)
    assert set(states(machine).values()) == {RUNNING}
    assert not gpu(machine, 1).healthy and "memory row" in gpu(machine, 1).health_reason
    later = on_gpu(machine, 1, id="g-2", job="jg-2")
    obey(full, a_document(machine, later, revision=2))
    assert (replica_report(machine, "g-2").state, replica_report(machine, "g-2").code) == (
        FAILED,
        CODE,
    )
    assert ("prepare", "g-2") not in [step[:2] for step in machine.runtime.story]
    clear(machine, 1)
    obey(full, a_document(machine, on_gpu(machine, 1, id="g-3", job="jg-3"), revision=3))
    assert gpu(machine, 1).healthy and gpu(machine, 1).health_reason == ""
    assert states(machine)["g-3"] is RUNNING


def test_a_gpu_off_the_bus_stays_in_the_document_its_work_fails_and_a_reset_brings_it_back(
    machine, full
):
    before = machine.reported[-1]
    with listening(full) as wait:
        inject(machine, 79, 0)
        wait()
    obey(full)
    assert [g.uuid for g in machine.reported[-1].gpus] == machine.gpus
    assert not gpu(machine, 0).healthy and "off the bus" in gpu(machine, 0).health_reason
    assert gpu(machine, 0).memory_mib == before.gpus[0].memory_mib
    assert machine.reported[-1].slices == before.slices, "what was last seen of it stays"
    failed = {r for r, state in states(machine).items() if state is FAILED}
    assert failed == {f"r-0-{start}" for start in STARTS}
    assert states(machine)["g-1"] is RUNNING
    clear(machine, 0)
    again = on_slice(machine, 1, id="r-9", job="j-9")
    obey(full, a_document(machine, again, on_gpu(machine, 1), revision=2))
    assert gpu(machine, 0).healthy
    assert states(machine)["r-9"] is RUNNING


def test_a_gpu_that_is_lost_without_a_word_is_noticed_at_the_next_look(machine, full):
    with machine.store.change() as state:
        inject_lost(state.gpus[1])
    obey(full)
    assert not gpu(machine, 1).healthy
    assert replica_report(machine, "g-1").code == CODE
    assert "off the bus" in replica_report(machine, "g-1").sentence


def test_an_event_makes_a_look_due_before_its_time(machine, full):
    assert not full.hardware.is_due()
    full.hardware.watch.record(DriverEvent(machine.gpus[1], EventKind.XID, 119, None, None))
    assert full.hardware.is_due()
    full.hardware.refresh()
    assert not full.hardware.is_due()


def test_an_idle_gpu_with_a_strangers_process_is_not_given_out_until_that_has_ended(machine):
    node, stranger = machine.agent(), os.getpid()
    with machine.store.change() as state:
        attach_client(state.gpus[1], stranger)
    obey(node, a_document(machine, on_gpu(machine, 1), slices=()))
    assert states(machine) == {"g-1": ReplicaState.PREPARING}
    assert gpu(machine, 1).healthy
    (said,) = machine.reported[-1].facts.problems
    assert f"(pid {stranger})" in said and "GPU 1" in said
    assert f"(pid {stranger})" in gpu(machine, 1).busy and not gpu(machine, 0).busy
    with machine.store.change() as state:
        detach_client(state.gpus[1], stranger)
    obey(node)
    assert states(machine) == {"g-1": RUNNING}
    assert machine.reported[-1].facts.problems == ()


def test_a_strangers_process_beside_a_job_is_told_and_the_job_goes_on(machine, full):
    with machine.store.change() as state:
        attach_client(state.gpus[1], os.getpid())
    obey(full)
    assert any(f"pid {os.getpid()}" in said for said in machine.reported[-1].facts.problems)
    assert set(states(machine).values()) == {RUNNING} and gpu(machine, 1).healthy


def test_an_engine_that_does_not_answer_is_told_and_nothing_is_removed_or_doubled(
    machine, full, monkeypatch
):
    story, before = list(machine.runtime.story), machine.reported[-1]

    def silent():
        raise RuntimeFailure("docker", "Docker refused to list: timed out")

    with monkeypatch.context() as away:
        away.setattr(machine.runtime, "containers", silent)
        for _ in range(3):
            with pytest.raises(RuntimeFailure) as failure:
                full.round()
            full.report_silence(str(failure.value))
    dark = machine.reported[-1]
    assert machine.reported[-2] == before, "told once"
    assert "timed out" in dark.facts.blocks[0] and dark.facts.blocks[0] in dark.facts.problems
    assert dark.replicas == before.replicas
    obey(full)
    assert machine.reported[-1] == before
    assert machine.runtime.story == story


def test_the_running_loop_tells_of_a_silent_engine_and_wakes_on_an_event(
    machine, full, monkeypatch
):
    said = threading.Semaphore(0)

    def tell(document):
        machine.reported.append(document)
        said.release()

    def until(holds):
        while not holds():
            assert said.acquire(timeout=SECONDS)

    def silent():
        raise RuntimeFailure("docker", "Docker refused to list: timed out")

    full.on_observed = tell
    full.hardware.watch.on_change = full.wake
    loop = threading.Thread(target=full.run)
    loop.start()
    try:
        with monkeypatch.context() as away:
            away.setattr(machine.runtime, "containers", silent)
            full.wake()
            until(lambda: machine.reported[-1].facts.blocks)
        full.wake()
        until(lambda: not machine.reported[-1].facts.blocks)
        full.hardware.watch.record(DriverEvent(machine.gpus[1], EventKind.XID, 119, None, None))
        until(lambda: states(machine)["g-1"] is FAILED)
    finally:
        full.stop()
        loop.join()
    assert not gpu(machine, 1).healthy
