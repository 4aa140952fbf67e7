"""What a replica is told about itself, its gang and its devices; nobody can talk it out of it."""

import pytest

from agents.contract.documents import Rendezvous
from agents.launchers.launch import launch_command, replica_environment
from agents.runtime.image import image_program
from agents.workspace.environment import usual_variables
from agents.workspace.folders import IN_CONTAINER
from tests.unit.agents.documents import a_replica

MEETING = Rendezvous("10.0.0.1", 29_500, ("10.0.0.1", "10.0.0.2"))


def rank_environment(devices=("MIG-1",), meeting=MEETING, **fields):
    replica = a_replica(**{"launcher": "none", "rank": 1, "world": 2} | fields)
    return replica_environment(replica, devices, meeting, IN_CONTAINER)


def command_of(**fields):
    return launch_command(a_replica(**fields), MEETING, IN_CONTAINER)


def test_a_plain_rank_knows_its_place_and_where_the_gang_meets():
    env = rank_environment()
    assert (env["RANK"], env["WORLD_SIZE"]) == ("1", "2")
    assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == ("0", "1")
    assert (env["NODE_RANK"], env["NNODES"]) == ("1", "2")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.1", "29500")


def test_every_rank_is_told_the_same_meeting_and_another_rank():
    ranks = [rank_environment(rank=rank, world=3) for rank in range(3)]
    same = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TESSERA_PEERS", "TESSERA_JOB")
    assert {tuple(env[name] for name in same) for env in ranks} == {
        ("10.0.0.1", "29500", "3", "10.0.0.1,10.0.0.2", "j-1")
    }
    assert [env["RANK"] for env in ranks] == ["0", "1", "2"]


def test_the_hosts_of_the_gang_are_told_in_rank_order():
    peers = tuple(f"10.0.0.{n}" for n in (9, 3, 7))
    assert rank_environment(meeting=Rendezvous("10.0.0.9", 1, peers))["TESSERA_PEERS"].split(
        ","
    ) == [*peers]


def test_the_words_of_tessera_say_the_same_as_the_common_ones():
    env = rank_environment(name="train", attempt=2)
    assert (env["TESSERA_RANK"], env["TESSERA_WORLD_SIZE"]) == (env["RANK"], env["WORLD_SIZE"])
    assert env["TESSERA_MASTER_ADDR"] == env["MASTER_ADDR"]
    assert env["TESSERA_MASTER_PORT"] == env["MASTER_PORT"]
    assert (env["TESSERA_NAME"], env["TESSERA_ATTEMPT"]) == ("train", "2")
    assert env["TESSERA_OUTPUT_DIR"] == "/output"


def test_the_command_is_the_arguments_of_an_image_that_is_run_as_it_is():
    env = rank_environment(launcher="entrypoint")
    assert (env["RANK"], env["WORLD_SIZE"]) == ("1", "2")
    attrs = {"Config": {"Entrypoint": ["/serve", "--all"], "Cmd": ["--help"]}}
    words = command_of(launcher="entrypoint", command=("--model", "m"))
    assert image_program(attrs, words) == ["/serve", "--all", "--model", "m"]
    assert image_program(attrs, []) == ["/serve", "--all", "--help"]
    assert image_program({"Config": {"Entrypoint": None, "Cmd": None}}, ["a"]) == ["a"]


def test_torchrun_gets_its_flags_and_sets_the_ranks_itself():
    env = rank_environment(launcher="torchrun", processes=4, attempt=3)
    assert {name: value for name, value in env.items() if name.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "4",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "29500",
        "PET_RDZV_ID": "j-1-3",
        "PET_MAX_RESTARTS": "0",
    }
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} & env.keys()


def test_two_attempts_at_a_job_never_meet_each_other():
    one, two = (rank_environment(launcher="torchrun", attempt=n)["PET_RDZV_ID"] for n in (1, 2))
    assert one != two


def test_a_replica_sees_the_devices_it_was_given_and_no_others():
    assert rank_environment(devices=("MIG-1", "MIG-2"))["TESSERA_DEVICES"] == "MIG-1,MIG-2"
    assert rank_environment(devices=())["TESSERA_DEVICES"] == ""


@pytest.mark.parametrize("launcher", ["none", "torchrun"])
def test_the_users_variables_stay_but_never_win_over_ours(launcher):
    ours = rank_environment(launcher=launcher)
    usual = dict.fromkeys(usual_variables(a_replica(), IN_CONTAINER), "chosen")
    env = rank_environment(
        launcher=launcher, env=dict.fromkeys(ours, "evil") | usual | {"SEED": "1"}
    )
    assert env == ours | usual | {"SEED": "1"}


def test_every_value_can_be_put_into_an_environment():
    for launcher in ("none", "torchrun"):
        env = rank_environment(launcher=launcher)
        assert all(type(name) is str and type(value) is str for name, value in env.items())


@pytest.mark.parametrize(
    ("words", "executed"),
    [
        (("python", "t.py", "-v"), ["python", "-m", "torch.distributed.run", "t.py", "-v"]),
        (
            ("/opt/bin/python3.12", "-m", "train"),
            ["/opt/bin/python3.12", "-m", "torch.distributed.run", "-m", "train"],
        ),
        (
            ("python", "-u", "t.py"),
            ["python", "-m", "torch.distributed.run", "--no-python", "python", "-u", "t.py"],
        ),
        (("./train.sh", "python"), ["torchrun", "--no-python", "./train.sh", "python"]),
    ],
)
def test_torchrun_starts_the_users_program(words, executed):
    assert command_of(launcher="torchrun", command=words) == executed
    assert command_of(launcher="none", command=words) == list(words)


@pytest.mark.parametrize("launcher", ["none", "torchrun"])
def test_without_a_command_the_image_decides(launcher):
    assert command_of(launcher=launcher, command=()) == []
