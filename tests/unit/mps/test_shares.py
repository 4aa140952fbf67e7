"""Shares on a whole node: the loop, real processes, and the simulated control program."""

import os
import signal
from pathlib import Path

import pytest

from agents.contract.documents import DesiredReplicaState, DesiredSlice, GpuMode, SliceKind
from agents.mps.daemons import MpsDaemon
from agents.mps.stop import stop_replica
from tests.support.examples import first_quick
from tests.unit.mps.stage import DIE, LIVE, SAY, a_client, a_share, is_gone, until

RUNNING, ABSENT = ("running", ""), ("exited", "")
SAY_AND_LIVE = f"{SAY}; {LIVE}"
TORCHRUN = {"PYTHONPATH": str(Path(__file__).parents[2] / "support" / "torchrun_stand_in")}


def at_risk(stage):
    events = [e for e in stage.journal.unsent_events() if str(e.type) == "share.at_risk"]
    return {event.replica: event.sentence for event in events}


def test_two_shares_of_a_project_run_at_once_over_one_daemon_with_their_own_limits(stage):
    stage.agent()
    one = a_client("r-1", a_share(stage.gpu, 25, 20_000), program=SAY_AND_LIVE)
    launched = {"launcher": "torchrun", "processes": 2, "env": TORCHRUN}
    two = a_client("r-2", a_share(stage.gpu, 50, 40_000), program=SAY_AND_LIVE, **launched)
    stage.obey(stage.document(one, two))
    assert stage.states() == {"r-1": RUNNING, "r-2": RUNNING}
    (daemon,) = stage.daemons().values()
    (server,) = daemon.control.servers()
    assert stage.is_exclusive()
    assert stage.server_processes() == [server]

    def lines(replica):
        return stage.log(replica).splitlines()

    until(lambda: (len(lines("r-1")), len(lines("r-2"))) == (1, 2), "each process to say its share")
    for replica, threads, limit in (("r-1", "25", "0=20000M"), ("r-2", "25", "0=20000M")):
        (env,) = {tuple(eval(line)) for line in lines(replica)}
        assert dict(env) == {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": threads,
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit,
            "CUDA_MPS_PIPE_DIRECTORY": str(daemon.folders.pipe),
            "CUDA_VISIBLE_DEVICES": stage.gpu,
        }
    assert daemon.folders.pipe.stat().st_mode & 0o777 == 0o700


def test_a_larger_share_raises_the_limit_of_the_server_that_runs_and_a_smaller_leaves_it(stage):
    stage.agent()
    small, large = a_share(stage.gpu, 10, 5_000), a_share(stage.gpu, 60, 50_000)
    stage.obey(stage.document(a_client("r-1", small)))
    daemon = stage.daemons()["p-1"]
    pid, (server,) = daemon.running_pid(), daemon.control.servers()
    assert daemon.control.send(f"get_active_thread_percentage {server}") == ["10.0"]
    everybody = (a_client("r-1", small), a_client("r-2", large), a_client("r-3", small))
    stage.obey(stage.document(*everybody, revision=2))
    assert stage.states() == dict.fromkeys(("r-1", "r-2", "r-3"), RUNNING)
    assert (daemon.running_pid(), daemon.control.servers()) == (pid, [server])
    assert daemon.control.send(f"get_active_thread_percentage {server}") == ["60.0"]
    assert daemon.control.send(f"get_device_pinned_mem_limit {server} 0") == ["48G"]


def test_a_second_project_is_refused_before_anything_of_it_starts(stage):
    stage.agent()
    mine = a_client("r-1", a_share(stage.gpu, 10))
    theirs = a_client("r-0", a_share(stage.gpu, 10), project="p-2")
    stage.obey(stage.document(mine))
    stage.obey(stage.document(mine, theirs, revision=2))
    assert stage.states() == {"r-0": ("failed", "mps_projects"), "r-1": RUNNING}
    assert list(stage.daemons()) == ["p-1"]
    assert "r-0" not in stage.runtime.containers()
    (event,) = [e for e in stage.journal.unsent_events() if e.replica == "r-0"]
    assert "projects do not share an MPS daemon" in event.sentence


def test_nobody_gets_the_gpu_alone_beside_shares(stage):
    stage.agent()
    alone = a_client("r-2", a_share(stage.gpu, 0, 0, kind=SliceKind.GPU))
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu)), alone))
    assert stage.states() == {"r-1": RUNNING, "r-2": ("failed", "mps_mode")}


def test_a_node_without_the_program_says_so_and_starts_nothing(stage):
    stage.program = ("no-such-mps-control",)
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    assert stage.states() == {"r-1": ("failed", "mps_missing")}
    assert not stage.root.exists() and not stage.is_exclusive()
    assert stage.shares.support.share_clients == 0


def test_an_agent_without_shares_refuses_them(stage):
    stage.agent(unavailable_reason="this agent was started without MPS shares")
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    assert stage.states() == {"r-1": ("failed", "mps_missing")}


def test_the_next_agent_adopts_the_daemon_of_one_that_was_killed(stage):
    stage.agent()
    document = stage.document(a_client("r-1", a_share(stage.gpu)))
    stage.obey(document)
    before = stage.daemons()["p-1"]
    pid, servers = before.running_pid(), before.control.servers()
    stage.agent()
    stage.rounds()
    after = stage.daemons()["p-1"]
    assert (after.running_pid(), after.control.servers()) == (pid, servers)
    assert stage.states() == {"r-1": RUNNING}
    two = a_client("r-2", a_share(stage.gpu))
    stage.obey(stage.document(*document.replicas, two, revision=2))
    assert after.running_pid() == pid and set(after.record.holders) == {"r-1", "r-2"}


@pytest.mark.parametrize("killed", first_quick(False, True))
def test_when_the_last_share_has_left_daemon_folder_and_compute_mode_are_as_before(stage, killed):
    stage.agent()
    one, two = (a_client(f"r-{n}", a_share(stage.gpu)) for n in (1, 2))
    stage.obey(stage.document(one, two))
    daemon = stage.daemons()["p-1"]
    pid, (server,) = daemon.running_pid(), daemon.control.servers()
    stage.obey(stage.document(one, revision=2))
    assert daemon.running_pid() == pid, "one share is left"
    if killed:
        stage.journal.store_desired(stage.document(revision=3))
        stage.agent()
        stage.rounds()
    else:
        stage.obey(stage.document(revision=3))
    assert stage.daemons() == {} and list(stage.root.iterdir()) == []
    until(lambda: is_gone(pid) and is_gone(server), "the daemon's end")
    assert not stage.is_exclusive() and stage.server_processes() == []


@pytest.mark.slow
def test_the_gpu_goes_to_the_next_project_whole_or_shared_when_the_last_share_has_ended(stage):
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu), program="pass")))
    stage.ended("r-1")
    theirs = a_client("r-2", a_share(stage.gpu), project="p-2", program="pass")
    stage.obey(stage.document(theirs, revision=2))
    stage.ended("r-2")
    assert stage.states()["r-2"] == ABSENT
    alone = a_client("r-3", a_share(stage.gpu, 0, 0, kind=SliceKind.GPU))
    stage.obey(stage.document(alone, revision=3, mode=GpuMode.WHOLE))
    assert stage.states()["r-3"] == RUNNING
    assert stage.daemons() == {} and not stage.is_exclusive()


def test_a_daemon_that_dies_is_started_again_and_its_shares_hear_of_it(stage):
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    daemon = stage.daemons()["p-1"]
    pid = daemon.running_pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: daemon.running_pid() is None, "its end")
    stage.rounds()
    assert daemon.running_pid() not in (None, pid) and len(daemon.control.servers()) == 1
    assert "MPS daemon ended" in at_risk(stage)["r-1"]


def test_a_neighbour_that_dies_by_a_signal_puts_the_others_at_risk_once(stage):
    stage.agent()
    bad = a_client("r-1", a_share(stage.gpu, 10), program=DIE)
    good, other = (a_client(f"r-{n}", a_share(stage.gpu, 10), rank=n) for n in (2, 3))
    stage.obey(stage.document(good, other))
    stage.obey(stage.document(bad, good, other, revision=2))
    stage.ended("r-1")
    sentence = "neighbour rank 0 of job j-r-1 ended abnormally (exit code 139): this share may be"
    assert {key: said.startswith(sentence) for key, said in at_risk(stage).items()} == {
        "r-2": True,
        "r-3": True,
    }
    told = len(stage.journal.unsent_events())
    stage.rounds()
    stage.agent()
    stage.rounds()
    assert len(stage.journal.unsent_events()) == told
    assert stage.states()["r-2"] == RUNNING


@pytest.mark.parametrize(("fault", "told"), first_quick((True, {"r-2"}), (False, set())))
def test_a_plain_failure_puts_others_at_risk_only_where_the_server_has_a_fault(stage, fault, told):
    stage.agent()
    gate = stage.var / "gate"
    os.mkfifo(gate)
    failing = a_client("r-1", a_share(stage.gpu, 10), program=f"open({str(gate)!r}).read(); 1 / 0")
    good = a_client("r-2", a_share(stage.gpu, 10))
    stage.obey(stage.document(failing, good))
    daemon = stage.daemons()["p-1"]
    (server,) = daemon.control.servers()
    if fault:
        daemon.control.send(f"simulate_fault {server}")
    gate.write_text("go")
    stage.ended("r-1")
    assert set(at_risk(stage)) == told
    after = daemon.control.servers()
    assert (after == [server]) is not fault, "a faulty server without clients is renewed"
    assert daemon.control.status(after[0]) == "ACTIVE"


@pytest.mark.slow
def test_a_server_with_a_fault_keeps_its_clients_until_they_have_gone(stage):
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    daemon = stage.daemons()["p-1"]
    (server,) = daemon.control.servers()
    daemon.control.send(f"simulate_client {server} 4711")
    daemon.control.send(f"simulate_fault {server}")
    assert not daemon.renew_servers() and daemon.control.servers() == [server]
    daemon.control.terminate_client(server, 4711)
    assert daemon.renew_servers() and daemon.control.servers() != [server]


def connect(stage, replica):
    """Its processes, as clients of the server. Answers whether the server has any of them still."""
    (daemon,) = stage.daemons().values()
    (server,) = daemon.control.servers()
    (client,) = stage.runtime.processes(replica)
    daemon.control.send(f"simulate_client {server} {client}")
    return lambda: client in daemon.control.clients(server)


def stop(stage, replica, *others, **fields):
    stopped = a_client(replica, a_share(stage.gpu), wish=DesiredReplicaState.STOP, **fields)
    stage.obey(stage.document(stopped, *others, revision=2))
    stage.ended(replica)


def test_a_share_that_is_stopped_is_disconnected_before_a_signal_ends_it(stage):
    stage.agent()
    one, two = (a_client(f"r-{n}", a_share(stage.gpu)) for n in (1, 2))
    stage.obey(stage.document(one, two))
    is_connected, is_neighbour_connected = connect(stage, "r-1"), connect(stage, "r-2")
    stop(stage, "r-1", two)
    assert not is_connected() and is_neighbour_connected()
    assert at_risk(stage) == {}


@pytest.mark.slow
def test_a_share_that_saves_its_work_is_disconnected_only_before_it_is_killed(stage, tmp_path):
    stage.agent()
    saved = tmp_path / "saved"
    handler = f"signal.signal(signal.SIGTERM, lambda *_: open({str(saved)!r}, 'w').close())"
    program = f"import signal; {handler}; print('ready', flush=True); {LIVE}"
    one = a_client("r-1", a_share(stage.gpu), program=program, grace_seconds=1)
    two = a_client("r-2", a_share(stage.gpu))
    stage.obey(stage.document(one, two))
    until(lambda: "ready" in stage.log("r-1"), "its handler")
    is_connected = connect(stage, "r-1")
    stop(stage, "r-1", two, program=program, grace_seconds=1)
    assert saved.exists(), "it had its SIGTERM while it was connected"
    assert not is_connected()
    assert at_risk(stage) == {}


@pytest.mark.slow
def test_a_share_that_was_dead_before_its_stop_puts_the_others_at_risk(stage):
    stage.agent()
    one, two = (a_client(f"r-{n}", a_share(stage.gpu)) for n in (1, 2))
    stage.obey(stage.document(one, two))
    (client,) = stage.runtime.processes("r-1")
    os.kill(client, signal.SIGKILL)
    until(lambda: not stage.runtime.processes("r-1"), "its end")
    stop_replica(stage.runtime, stage.shares, "r-1", 0)
    stage.ended("r-1")
    assert set(at_risk(stage)) == {"r-2"}


@pytest.mark.slow
def test_a_share_that_dies_of_sigterm_while_it_is_connected_puts_the_others_at_risk(stage):
    stage.agent()
    pass_on = "signal.signal(15, signal.SIG_DFL), os.kill(os.getpid(), 15)"
    handler = f"signal.signal(signal.SIGTERM, lambda *_: ({pass_on}))"
    program = f"import os, signal; {handler}; print('ready', flush=True); {LIVE}"
    one, two = (
        a_client("r-1", a_share(stage.gpu), program=program),
        a_client("r-2", a_share(stage.gpu)),
    )
    stage.obey(stage.document(one, two))
    until(lambda: "ready" in stage.log("r-1"), "its handler")
    stop(stage, "r-1", two, program=program)
    assert set(at_risk(stage)) == {"r-2"}


def test_an_xid_on_the_gpu_puts_its_shares_at_risk(stage):
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    stage.shares.report_gpu_fault(stage.gpu, "GPU 0 reported XID 31")
    stage.shares.report_gpu_fault("GPU-other", "GPU 1 reported XID 79")
    stage.rounds()
    assert at_risk(stage) == {"r-1": "GPU 0 reported XID 31: this share may be affected"}


@pytest.mark.slow
def test_shares_stand_on_a_mig_instance_with_a_daemon_that_sees_only_it(stage):
    stage.agent()
    places = {n: {"profile": "3g.71gb", "start": n, "size": 4} for n in (0, 4)}
    slices = tuple(DesiredSlice(f"s-{n}", stage.gpu, **place) for n, place in places.items())
    one, two = (
        a_client(f"r-{n}", a_share(stage.gpu, 100, 1_000, **place), project=f"p-{n}")
        for n, place in places.items()
    )
    document = stage.document(one, two, mode=GpuMode.MIG, slices=slices)
    stage.obey(document)
    assert stage.states() == {"r-0": RUNNING, "r-4": RUNNING}
    instances = {f"p-{i.start}": i.uuid for i in stage.nvml.instances(stage.gpu)}
    assert {key: d.record.device for key, d in stage.daemons().items()} == instances
    stage.obey(stage.document(revision=2, mode=GpuMode.MPS))
    stage.rounds()
    assert stage.daemons() == {} and stage.nvml.instances(stage.gpu) == []


def test_a_process_that_is_not_our_daemon_is_never_taken_for_it(stage):
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    daemon: MpsDaemon = stage.daemons()["p-1"]
    own = daemon.running_pid()
    pid_file = daemon.folders.pipe / "nvidia-cuda-mps-control.pid"
    for other in (os.getpid(), 1, 2**22 - 1):
        pid_file.write_text(f"{other}\n")
        assert daemon.running_pid() is None
    pid_file.write_text(f"{own}\n")
    assert daemon.running_pid() == own


def test_a_driver_that_refuses_the_compute_mode_fails_the_replica_with_its_words(stage):
    with stage.store.change() as node:
        node.is_root = False
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    assert stage.states() == {"r-1": ("failed", "mps_exclusive")}
    with stage.store.change() as node:
        node.is_root = True


def test_stopping_every_job_leaves_no_daemon(stage):
    stage.agent()
    stage.obey(stage.document(a_client("r-1", a_share(stage.gpu))))
    pid = stage.daemons()["p-1"].running_pid()
    stage.node.stop_jobs()
    until(lambda: is_gone(pid), "the daemon's end")
    assert stage.daemons() == {} and not stage.is_exclusive()
