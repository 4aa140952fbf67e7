"""What a Slurm script asks for, as a request; what Tessera has nothing like is named."""

from __future__ import annotations

import pytest

from portal.cli.exit_codes import CommandFailed
from portal.cli.sbatch import job_name, read_header, read_memory, read_script, read_time

SCRIPT = """#!/bin/bash
#SBATCH --job-name="my job"
#SBATCH --gres=gpu:h100:4   # four of them
#SBATCH -N 2 --time=1-12:30
#SBATCH --mem 64G --cpus-per-task=8
#SBATCH --partition=debug

python train.py "$@"
#SBATCH --nodes=99
"""


def test_the_header_becomes_a_request():
    found = read_header(SCRIPT)
    assert found.fields == {
        "name": "my-job",
        "device": {"gpus": 4, "models": ["h100"]},
        "replicas": 2,
        "time_limit": "131400s",
        "memory": "64GiB",
        "cpu": 8,
    }


def test_what_is_not_known_is_named_with_its_line_and_left_out():
    (told,) = read_header(SCRIPT).ignored
    assert told.startswith("line 6: --partition debug:")


def test_lines_after_the_first_command_are_no_header():
    assert read_header(SCRIPT).fields["replicas"] == 2


def test_the_script_goes_along_with_its_arguments():
    found = read_script(SCRIPT, ["--lr", "3"], "train.sh")
    assert found.fields["command"] == ["/bin/bash", "-c", SCRIPT, "train.sh", "--lr", "3"]


def test_a_python_script_runs_with_its_own_interpreter():
    text = "#!/usr/bin/env python3\n#SBATCH --gres=gpu:1\nprint(1)\n"
    assert read_script(text, ["x"], "t.py").fields["command"] == ["python3", "-c", text, "x"]


def test_a_script_without_a_name_is_called_as_its_file():
    assert read_script("#!/bin/sh\ntrue\n", [], "my run.sh").fields["name"] == "my-run"


@pytest.mark.parametrize("first", ["#!/usr/bin/perl", "#!"])
def test_other_interpreters_are_refused(first: str):
    with pytest.raises(CommandFailed, match="script_invalid"):
        read_script(f"{first}\n", [], "x")


def test_a_script_longer_than_a_word_may_be_is_refused():
    with pytest.raises(CommandFailed, match="put it in the image"):
        read_script("#!/bin/sh\n" + "#" * 40_000, [], "x")


def test_tasks_of_a_node_are_processes_under_torchrun_and_their_cpus_add_up():
    found = read_header("#SBATCH --ntasks-per-node=4\n#SBATCH -c 2\n#SBATCH --gres=gpu:4\n")
    assert found.fields == {
        "cpu": 8,
        "processes": 4,
        "launcher": "torchrun",
        "device": {"gpus": 4},
    }


def test_one_task_a_node_needs_no_launcher():
    assert read_header("#SBATCH --ntasks-per-node=1\n").fields == {}


def test_srun_lines_are_named():
    found = read_script("#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n", [], "x.sh")
    assert any(told.startswith("line 3:") and "srun" in told for told in found.ignored)


@pytest.mark.parametrize(
    ("gres", "device"),
    [
        ("gpu", {"gpus": 1}),
        ("gpu:2", {"gpus": 2}),
        ("gpu:a100", {"gpus": 1, "models": ["a100"]}),
        ("gpu:2(S:0-1)", {"gpus": 2}),
        ("gpu:1g.10gb:1", {"mig": "1g.10gb"}),
        ("gpu:1g.10gb", {"mig": "1g.10gb"}),
    ],
)
def test_gres_is_a_device(gres: str, device: dict):
    assert read_header(f"#SBATCH --gres={gres}\n").fields == {"device": device}


@pytest.mark.parametrize("gres", ["fpga:1", "gpu:0", "gpu:x:y", "gpu:1:2:3", "gpu:2g.20gb:2", ""])
def test_gres_that_makes_no_sense_here_is_named(gres: str):
    found = read_header(f"#SBATCH --gres={gres}\n")
    assert found.fields == {} and len(found.ignored) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5_400),
        ("1:30", 90),
        ("1:30:00", 5_400),
        ("2-12", 216_000),
        ("1-0:30", 88_200),
        ("1-00:00:01", 86_401),
    ],
)
def test_times_of_slurm(text: str, seconds: int):
    assert read_time(text) == f"{seconds}s"


@pytest.mark.parametrize("text", ["", "4h", "1:2:3:4", "-5", "UNLIMITED"])
def test_other_times_are_refused(text: str):
    with pytest.raises(ValueError, match="minutes"):
        read_time(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("64G", "64GiB"),
        ("4096", "4GiB"),
        ("1500M", "1500MiB"),
        ("2T", "2048GiB"),
        ("2048K", "2MiB"),
    ],
)
def test_memory_counts_in_powers_of_two(text: str, said: str):
    assert read_memory(text) == said


def test_a_bad_value_is_named_and_left_out():
    found = read_header("#SBATCH --mem=0 --time=soon\n#SBATCH --nodes=2-\n#SBATCH -J 'open\n")
    assert found.fields == {} and len(found.ignored) == 4


def test_the_fewest_and_the_most_nodes_are_read():
    assert read_header("#SBATCH -N 2-4\n").fields == {"replicas": {"min": 2, "max": 4}}


def test_an_option_without_a_value_does_not_eat_the_next():
    found = read_header("#SBATCH --exclusive --nodes=2\n")
    assert found.fields == {"replicas": 2} and "--exclusive" in found.ignored[0]


@pytest.mark.parametrize(("text", "name"), [("a b/c.sh", "c"), ("---", "job"), ("日本", "job")])
def test_a_job_name_is_one_that_rest_takes(text: str, name: str):
    assert job_name(text) == name
