"""What every runtime promises, asked of each real one: processes, and containers of an engine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.contract.container_names import container_name
from agents.contract.documents import Rendezvous
from agents.launchers.none import NoLauncher
from agents.runtime.base import ContainerPhase, Runtime, RuntimeFailure
from agents.runtime.process import ProcessRuntime
from tests.contract.replicas import (
    DEAF,
    DEVICE,
    MEET,
    UNTIL_TOLD,
    Watch,
    a_gang,
    a_replica,
    go,
    meeting_of,
    whole_log,
)

Agent = Callable[[], Runtime]  # the runtime of an agent that starts anew on the same node


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def agent(request, tmp_path):
    if request.param == "docker":
        yield request.getfixturevalue("docker_node").runtime
        return
    started: list[ProcessRuntime] = []

    def start() -> ProcessRuntime:
        started.append(ProcessRuntime(tmp_path / "replicas"))
        return started[-1]

    yield start
    for replica in start().containers():
        started[-1].stop(replica, 0)
        started[-1].remove(replica)


def test_a_prepared_replica_waits_and_tells_who_it_is(agent: Agent):
    runtime = agent()
    replica = a_replica("print('too early')", attempt=3, rank=2, world=4, fence=7)
    runtime.prepare(replica, ())
    seen = runtime.containers()[replica.id]
    assert (seen.job, seen.attempt, seen.rank, seen.fence) == (replica.job, 3, 2, 7)
    assert seen.phase is ContainerPhase.CREATED
    assert seen.exit_code is None
    assert seen.address and 0 < seen.port < 65_536
    assert runtime.log(replica.id, 0, 100) == b""


def test_a_program_runs_to_its_end_with_its_exit_code_and_log(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica("print('done'); raise SystemExit(7)")
    go(runtime, replica)
    seen = watch.ended(replica)
    assert (seen.exit_code, seen.memory_kill) == (7, False)
    assert whole_log(runtime, replica.id) == b"done\n"


def test_a_signal_ends_it_with_128_and_its_number(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 139


def test_a_command_that_does_not_exist_ends_with_127_and_says_so(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica(command=("no-such-program", "--help"))
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 127
    assert b"no-such-program" in whole_log(runtime, replica.id)


def test_the_environment_is_the_users_with_ours_on_top(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    names = ("EPOCHS", "RANK", "WORLD_SIZE", "TESSERA_DEVICES")
    program = f"import os; print(*(os.environ[name] for name in {names}))"
    replica = a_replica(program, env={"EPOCHS": "3", "RANK": "9"})
    go(runtime, replica, devices=(DEVICE,))
    watch.ended(replica)
    assert whole_log(runtime, replica.id).decode().split() == ["3", "0", "1", DEVICE]


def place_file(launcher, launch):
    return {"place": f"{launch.replica.rank} {launch.rendezvous.address}"}


def test_the_files_of_its_launcher_are_told_and_cannot_be_changed(agent: Agent, monkeypatch):
    monkeypatch.setattr(NoLauncher, "files", place_file)
    runtime = agent()
    watch = Watch(runtime)
    program = """
import os, pathlib
file = pathlib.Path(os.environ["TESSERA_LAUNCHER_DIR"], "place")
print(file.read_text(), os.environ["MASTER_ADDR"], oct(file.stat().st_mode & 0o222))
"""
    replica = a_replica(program)
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0, whole_log(runtime, replica.id)
    rank, told, address, writable = whole_log(runtime, replica.id).decode().split()
    assert (rank, told, writable) == ("0", address, "0o0")


WRITE_EVERYWHERE = """
import getpass, os, pathlib, tempfile
names = "HOME TMPDIR XDG_CACHE_HOME TESSERA_OUTPUT_DIR TESSERA_CHECKPOINT_DIR".split()
for folder in [os.environ[name] for name in names]:
    pathlib.Path(folder).mkdir(exist_ok=True)
    pathlib.Path(folder, "made").touch()
pathlib.Path(os.environ["TESSERA_METRICS_FILE"]).touch()
assert os.path.samefile(os.getcwd(), os.environ["HOME"])
assert os.path.samefile(tempfile.gettempdir(), os.environ["TMPDIR"])
assert getpass.getuser() == os.environ["USER"] == os.environ["LOGNAME"]
print(getpass.getuser(), os.environ["HF_HOME"])
"""


def test_a_replica_has_a_place_to_work_in_that_goes_with_it(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica(WRITE_EVERYWHERE, user="ada@example.org", env={"HF_HOME": "/data"})
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0, whole_log(runtime, replica.id)
    assert whole_log(runtime, replica.id) == b"ada /data\n"
    made = runtime.workspaces.folders(replica.id)
    assert (made.output / "made").exists() and made.metrics_file.exists()
    runtime.remove(replica.id)
    assert not made.output.exists()


def test_the_ranks_of_a_gang_meet_where_rank_0_offered(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    gang = a_gang(MEET, 2)
    go(runtime, *gang)
    assert [watch.ended(replica).exit_code for replica in gang] == [0, 0]
    assert whole_log(runtime, gang[1].id) == b"rank 0 says hello\n"


def test_asked_to_stop_a_program_ends_in_its_own_way(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica(UNTIL_TOLD)
    go(runtime, replica)
    watch.says(replica, b"ready\n")
    runtime.stop(replica.id, 20)
    seen = runtime.containers()[replica.id]
    assert (seen.phase, seen.exit_code) == (ContainerPhase.EXITED, 75)


def test_a_deaf_program_is_killed_when_its_grace_is_over(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica(DEAF)
    go(runtime, replica)
    watch.says(replica, b"ready\n")
    runtime.stop(replica.id, 1)
    seen = runtime.containers()[replica.id]
    assert (seen.phase, seen.exit_code, seen.memory_kill) == (ContainerPhase.EXITED, 137, False)


def test_between_its_two_signals_a_stop_calls_only_for_a_program_that_goes_on(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    for program, grace_seconds, goes_on in ((UNTIL_TOLD, 60, False), (DEAF, 1, True)):
        replica, seen = a_replica(program), []
        go(runtime, replica)
        watch.says(replica, b"ready\n")
        running = runtime.processes(replica.id)
        assert any("python3" in Path(f"/proc/{pid}/cmdline").read_text() for pid in running)
        runtime.stop(
            replica.id, grace_seconds, lambda s=seen, r=replica: s.append(runtime.processes(r.id))
        )
        assert bool(seen) is goes_on
        assert not seen or set(seen[0]) <= set(running)
        assert runtime.containers()[replica.id].exit_code == (137 if goes_on else 75)
        assert runtime.processes(replica.id) == []


def test_every_call_may_be_said_again(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica("print('once')")
    runtime.prepare(replica, ())
    meeting = meeting_of(runtime, [replica])
    runtime.prepare(replica, ())
    assert len(runtime.containers()) == 1
    runtime.start(replica, (), meeting)
    runtime.start(replica, (), meeting)
    watch.ended(replica)
    runtime.start(replica, (), meeting)
    runtime.prepare(replica, ())
    runtime.stop(replica.id, 1)
    runtime.stop(replica.id, 1)
    assert runtime.containers()[replica.id].exit_code == 0
    assert whole_log(runtime, replica.id) == b"once\n"
    runtime.remove(replica.id)
    runtime.remove(replica.id)
    assert runtime.containers() == {}


def test_what_was_never_there_can_be_stopped_and_removed_but_not_started(agent: Agent):
    runtime = agent()
    replica = a_replica()
    runtime.stop(replica.id, 1)
    runtime.remove(replica.id)
    assert runtime.log(replica.id, 0, 100) == b""
    with pytest.raises(RuntimeFailure) as failure:
        runtime.start(replica, (), Rendezvous(address="127.0.0.1", port=29_500))
    assert failure.value.code == "vanished"
    assert runtime.containers() == {}


def test_a_prepared_replica_is_removed_without_having_run(agent: Agent):
    runtime = agent()
    replica = a_replica("print('never')")
    runtime.prepare(replica, ())
    runtime.stop(replica.id, 0)
    runtime.remove(replica.id)
    assert runtime.containers() == {}


def test_the_next_agent_adopts_what_waits_what_runs_and_what_has_ended(agent: Agent):
    first = agent()
    waiting, running, ended = a_replica(), a_replica(UNTIL_TOLD), a_replica("print('end')")
    first.prepare(waiting, ())
    go(first, running, ended)
    watch = Watch(first)
    watch.says(running, b"ready\n")
    watch.ended(ended)
    before = first.containers()
    first.close()
    second = agent()
    watch = Watch(second)
    watch.ended(ended)
    assert second.containers() == before
    assert whole_log(second, ended.id) == b"end\n"
    second.start(waiting, (), meeting_of(second, [waiting]))
    assert watch.ended(waiting).exit_code == 0
    second.stop(running.id, 20)
    assert second.containers()[running.id].exit_code == 75


def test_an_end_that_no_agent_saw_is_told_by_the_next_one(agent: Agent):
    first = agent()
    replica = a_replica("print('alone'); raise SystemExit(5)")
    go(first, replica)
    first.close()
    second = agent()
    assert Watch(second).ended(replica).exit_code == 5
    assert whole_log(second, replica.id) == b"alone\n"


def test_log_offsets_never_change(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    replica = a_replica("for i in range(1000): print(i)")
    go(runtime, replica)
    watch.ended(replica)
    log = whole_log(runtime, replica.id)
    assert log == "".join(f"{i}\n" for i in range(1_000)).encode()
    assert runtime.log(replica.id, 100, 50) == log[100:150]
    assert runtime.log(replica.id, len(log), 50) == b""
    assert runtime.log(replica.id, len(log) + 9, 50) == b""


def test_another_attempt_of_the_same_job_stands_beside_the_first(agent: Agent):
    runtime = agent()
    watch = Watch(runtime)
    first = a_replica("raise SystemExit(1)")
    second = a_replica("pass", job=first.job, attempt=2, fence=2)
    go(runtime, first)
    go(runtime, second)
    assert [watch.ended(r).exit_code for r in (first, second)] == [1, 0]
    runtime.remove(first.id)
    assert set(runtime.containers()) == {second.id}


def test_a_name_is_the_same_for_the_same_replica_and_no_other():
    job = "0f0e0d0c-0b0a-4908-8706-050403020100"
    assert container_name(job, 1, 0) == container_name(job, 1, 0) == "tessera-0f0e0d0c-0b0a-1-0"
    assert len({container_name(job, attempt, rank) for attempt in (1, 2) for rank in (0, 1)}) == 4


@pytest.mark.parametrize(("program", "grace_seconds"), [(UNTIL_TOLD, 20), (DEAF, 0)])
def test_a_plain_process_leaves_no_environment_behind(program, grace_seconds, tmp_path):
    runtime = ProcessRuntime(tmp_path / "replicas")
    watch = Watch(runtime)
    replica = a_replica(program, env={"TOKEN": "a secret"})
    go(runtime, replica)
    watch.says(replica, b"ready\n")
    files = {path: path.read_bytes() for path in runtime.home.rglob("*.json")}
    assert [path.name for path, content in files.items() if b"a secret" in content] == ["go.json"]
    runtime.stop(replica.id, grace_seconds)
    assert not any(b"a secret" in path.read_bytes() for path in runtime.home.rglob("*.json"))


def test_a_plain_process_is_kept_from_other_devices_by_cuda(tmp_path):
    runtime = ProcessRuntime(tmp_path / "replicas")
    watch = Watch(runtime)
    replicas = [
        a_replica("import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))") for _ in "12"
    ]
    go(runtime, replicas[0], devices=(DEVICE, "GPU-2"))
    go(runtime, replicas[1])
    for replica, visible in zip(replicas, (f"{DEVICE},GPU-2", ""), strict=True):
        watch.ended(replica)
        assert whole_log(runtime, replica.id).decode().strip() == repr(visible)
        runtime.remove(replica.id)
