"""`python -m agents.launchers show`: how a job would be started, for developers."""

import json

import pytest

from agents.launchers.__main__ import main

REQUEST = """
name: sum
command: [python, train.py]
replicas: 2
processes: 2
device: {gpus: 2}
"""


@pytest.fixture
def show(tmp_path, capsys):
    def run(*arguments, text=REQUEST, launcher="torchrun"):
        file = tmp_path / "job.yaml"
        file.write_text(text)
        status = main(["show", launcher, "-f", str(file), *arguments])
        return status, capsys.readouterr()

    return run


def test_each_replica_is_shown_at_an_assumed_place(show):
    status, said = show("--json")
    first, second = json.loads(said.out)
    assert status == 0
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["environment"]["TESSERA_DEVICES"] == "GPU-0-0,GPU-0-1"
    assert second["environment"]["PET_NODE_RANK"] == "1"
    assert first["environment"]["MASTER_ADDR"] == second["environment"]["MASTER_ADDR"]
    assert first["command"] == ["python", "-m", "torch.distributed.run", "train.py"]


def test_a_place_can_be_given(show):
    at = ("--address", "10.0.0.1", "--address", "10.0.0.2", "--devices", "GPU-a,GPU-b")
    status, said = show(*at, "--devices", "GPU-c,GPU-d", "--port", "7")
    assert status == 0
    assert "MASTER_ADDR=10.0.0.1" in said.out and "MASTER_PORT=7" in said.out
    assert "TESSERA_DEVICES=GPU-c,GPU-d" in said.out
    assert show(*at)[0] == 1


@pytest.mark.parametrize(
    ("text", "launcher", "sentence"),
    [
        (REQUEST, "none", "launcher none starts one process"),
        (REQUEST.replace("python,", "torchrun,"), "torchrun", "begins with torchrun"),
        ("- no fields", "none", "no fields"),
        ("a: [", "none", "no YAML"),
    ],
)
def test_what_cannot_be_started_is_refused_with_its_sentence(show, text, launcher, sentence):
    status, said = show(text=text, launcher=launcher)
    assert status == 1 and sentence in said.err and not said.out
