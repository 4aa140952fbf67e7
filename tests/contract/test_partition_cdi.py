"""Where containers get devices by CDI, its file is made anew before a device is given."""

import json
import sys
from pathlib import Path

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import ReplicaState
from agents.runtime.injection import Injection, InjectionPath
from tests.support.carving import HIGH, LOW, Carving

HERE = str(Path(__file__).resolve().parents[2])
# Stands for nvidia-ctk: describes every device that the driver lists.
WRITES = """#!{python}
import json, pathlib, sys
sys.path.insert(0, {here!r})
from agents.simdriver.store import Store
words = sys.argv[1:]
assert words == ["cdi", "generate", "--format=json", "--device-name-strategy=uuid"], words
broken = pathlib.Path({broken!r})
if broken.exists():
    sys.exit("could not generate: " + broken.read_text())
gpus = Store(pathlib.Path({state!r})).node().gpus
names = [g.uuid for g in gpus if not g.mig_current]
names += [c.uuid for g in gpus for i in g.instances for c in i.compute]
with pathlib.Path({log!r}).open("a") as log:
    log.write(json.dumps(sorted(names)) + chr(10))
devices = [{{"name": name}} for name in names]
print("time=now level=info msg=generated", file=sys.stderr)
print(json.dumps({{"kind": "nvidia.com/gpu", "devices": devices}}))
"""


@pytest.fixture
def node(tmp_path):
    node = Carving(tmp_path)
    program = tmp_path / "nvidia-ctk"
    values = {"broken": tmp_path / "broken", "log": tmp_path / "log"}
    text = WRITES.format(
        python=sys.executable,
        here=HERE,
        state=str(node.machine.store.path),
        **{name: str(path) for name, path in values.items()},
    )
    program.write_text(text, "utf-8")
    program.chmod(0o755)
    spec = str(tmp_path / "nvidia.yaml")
    node.injection = Injection(InjectionPath.CDI, needs_spec=True)
    node.policy = NodePolicy(nvidia_ctk=str(program), cdi_spec=spec)
    node.begin(node.policy)
    yield node
    node.end()


def made_for(tmp_path):
    """The devices that each making of the file named."""
    path = tmp_path / "log"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def test_the_file_is_made_after_each_change_and_not_without_one(node, tmp_path):
    node.wish(LOW)
    node.wish(LOW, HIGH)
    node.wish(HIGH)
    files = made_for(tmp_path)
    assert sorted(node.slices().values()) == files[-1]
    assert [len(names) for names in files[-3:]] == [1, 2, 1]
    devices = json.loads((tmp_path / "nvidia.yaml").read_text("utf-8"))["devices"]
    assert [device["name"] for device in devices] == files[-1]
    node.live(20)
    assert made_for(tmp_path) == files


def test_a_new_agent_makes_it_once(node, tmp_path):
    node.wish(LOW)
    count = len(made_for(tmp_path))
    node.begin(node.policy)
    node.live(5)
    assert len(made_for(tmp_path)) == count + 1


def test_no_device_is_given_before_the_file_names_it(node, tmp_path):
    (tmp_path / "broken").write_text("no driver", "utf-8")
    node.wish(LOW, replicas=(node.on(LOW),))
    assert list(node.slices()) == [("3g.71gb", 0)]
    assert [r.state for r in node.reported.replicas] == [ReplicaState.PREPARING]
    assert node.problems() == ["cdi_failed"]
    assert "could not generate: no driver" in node.sentence()
    assert node.reported.gpus[0].healthy, "what runs there runs on"
    (tmp_path / "broken").unlink()
    node.live(30)
    assert node.problems() == []
    assert [r.state for r in node.reported.replicas] == [ReplicaState.RUNNING]
    (given,) = node.machine.runtime.devices["r-1"]
    assert given in made_for(tmp_path)[-1]


def test_a_program_that_is_not_there_is_said_in_a_sentence(node, tmp_path):
    (tmp_path / "nvidia-ctk").unlink()
    node.wish(LOW)
    assert node.problems() == ["cdi_failed"] and "cannot be run" in node.sentence()


def test_without_cdi_nothing_is_run(node, tmp_path):
    node.injection = Injection(InjectionPath.RUNTIME)
    node.begin(node.policy)
    node.wish(LOW, replicas=(node.on(LOW),))
    assert made_for(tmp_path) == []
    assert [r.state for r in node.reported.replicas] == [ReplicaState.RUNNING]


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", "did not print a CDI file"),
        ("cdiVersion: 0.5.0", "did not print a CDI file"),
        ("[]", "did not print a CDI file"),
        ('{"devices": [{"name": "all"}]}', "does not describe MIG-"),
    ],
)
def test_what_is_no_cdi_file_is_said_in_a_sentence(node, tmp_path, printed, words):
    node.wish(LOW)
    (tmp_path / "nvidia-ctk").write_text(f"#!/bin/sh\necho '{printed}'\n", "utf-8")
    node.wish(LOW, HIGH)
    assert node.problems() == ["cdi_failed"] and words in node.sentence()


def test_a_file_that_cannot_be_read_as_one_leaves_the_old_one_in_place(node, tmp_path):
    node.wish(LOW)
    before = (tmp_path / "nvidia.yaml").read_text("utf-8")
    (tmp_path / "nvidia-ctk").write_text("#!/bin/sh\necho half a fi\n", "utf-8")
    node.wish(LOW, HIGH)
    assert (tmp_path / "nvidia.yaml").read_text("utf-8") == before
