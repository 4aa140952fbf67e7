"""What a container saw is right only if it is the device that it was given, and nothing else."""

import pytest

from agents.admission.policy import NodePolicy
from agents.commands.doctor import as_json, smoke_text
from agents.commands.doctor import main as doctor
from agents.doctor.smoke import (
    SmokeResult,
    SmokeVerdict,
    container_problem,
    has_failed,
    smoke_test,
    success_sentence,
)
from agents.settings import parser
from tests.unit.doctor.machines import GPU, SLICE, a_driver, a_gpu, a_machine

OTHER = "GPU-00000000-0000-0000-0000-000000000000"
WHOLE = f"""uid=65534
devices={GPU}
file=/dev/nvidia0
GPU 0: NVIDIA H200 (UUID: {GPU})
smi=0
cuda=1
"""
SLICED = f"""uid=65534
devices={SLICE}
file=/dev/nvidia0
GPU 0: NVIDIA H200 (UUID: {GPU})
  MIG 1g.18gb     Device  0: (UUID: {SLICE})
smi=0
cuda=1
"""


def problem(text, uuid, user=65_534):
    return container_problem(text.splitlines(), uuid, user)


@pytest.mark.parametrize(("text", "uuid"), [(WHOLE, GPU), (SLICED, SLICE)])
def test_the_device_alone_is_well_with_or_without_python(text, uuid):
    assert problem(text, uuid) == ""
    assert problem(text.replace("cuda=1", "cuda=untried"), uuid) == ""


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("uid=65534", "uid=0", "ran as uid 0, not as 65534"),
        (f"devices={GPU}", "devices=", "TESSERA_DEVICES was ''"),
        ("smi=0", "smi=absent", "no nvidia-smi"),
        ("smi=0", "smi=9", "ended with 9"),
        (f"(UUID: {GPU})", f"(UUID: {OTHER})", f"it sees {OTHER}"),
        (f"(UUID: {GPU})", f"(UUID: {GPU})\nGPU 1: NVIDIA H200 (UUID: {OTHER})", "it sees"),
        (f"(UUID: {GPU})", "", "it sees no device"),
        ("cuda=1", "cuda=8", "CUDA sees 8 devices"),
        ("cuda=1", "cuda=error 802", "CUDA does not start: error 802"),
        ("cuda=1", "cuda=absent", "no libcuda.so.1"),
        ("cuda=1", "cuda=1\nbandwidth=error 2 of cuMemAlloc_v2", "error 2 of cuMemAlloc_v2"),
    ],
)
def test_anything_else_is_named(before, after, words):
    assert before in WHOLE
    assert words in problem(WHOLE.replace(before, after), GPU)


def test_the_bandwidth_is_told_with_what_it_saw():
    lines = (*WHOLE.splitlines(), "bandwidth=4020 55.2")
    assert container_problem(lines, GPU, 65_534) == ""
    said = success_sentence(lines, GPU)
    assert said == f"it saw {GPU} alone; copies at 4020 GB/s in its memory, 55.2 GB/s from the host"
    assert success_sentence(lines[:-1], GPU) == f"it saw {GPU} alone"


def test_a_container_on_the_gpu_around_its_slice_is_not_well():
    parent = SLICED.replace(f"  MIG 1g.18gb     Device  0: (UUID: {SLICE})\n", "")
    assert problem(parent, SLICE) == f"it sees no device, and was given {SLICE}"


def test_without_a_device_no_file_of_one_may_be_there():
    bare = "uid=65534\ndevices=\nsmi=absent\ncuda=absent\n"
    assert problem(bare, "") == ""
    assert "/dev/nvidia0" in problem(f"{bare}file=/dev/nvidia0\n", "")


def test_only_the_way_of_jobs_counts_as_a_failure():
    failed = SmokeResult("cdi", "slice", SmokeVerdict.FAILED, "why")
    assert not has_failed([failed])
    assert has_failed([failed, SmokeResult("", "x", SmokeVerdict.FAILED, "", is_chosen=True)])


def test_without_an_engine_nothing_is_tried(tmp_path):
    machine = a_machine(tmp_path)
    machine.engine, machine.engine_failure = None, "no Docker Engine answers"
    (only,) = smoke_test(machine, "x")
    assert only.verdict is SmokeVerdict.NOT_TRIED and "no Docker Engine answers" in only.why


@pytest.mark.parametrize(
    ("driver", "whole", "sliced"),
    [
        (None, "there is no GPU", "there is no GPU"),
        (a_driver(gpus=()), "there is no GPU", "there is no GPU"),
        (a_driver(gpus=[a_gpu(mig=True)]), "every GPU is in MIG mode", "no slice is carved"),
    ],
)
def test_what_is_not_tried_says_what_is_missing(tmp_path, driver, whole, sliced):
    """Nothing is run: no image is allowed here."""
    machine = a_machine(tmp_path)
    machine.driver = driver
    machine.engine |= {"Runtimes": {"nvidia": {}}, "CDISpecDirs": []}
    machine.policy = NodePolicy(images=())
    bare, *rest = smoke_test(machine, "ubuntu:24.04")
    assert "is not allowed by this node's policy" in bare.why
    assert {result.verdict for result in rest} == {SmokeVerdict.NOT_TRIED}
    assert [(r.path, r.device, r.why) for r in rest[:2]] == [
        ("runtime", "whole GPU", whole),
        ("runtime", "slice", sliced),
    ]
    assert {r.why for r in rest[2:4]} == {"the engine reads no CDI files"}
    assert [r.is_chosen for r in rest] == [True, True, False, False, False, False]


def test_the_report_says_what_was_not_tried_and_what_a_simulation_cannot_show():
    results = (
        SmokeResult("runtime", "slice", SmokeVerdict.OK, "it saw it alone", ("smi=0",), True),
        SmokeResult("cdi", "slice", SmokeVerdict.NOT_TRIED, "the engine reads no CDI files"),
    )
    text = smoke_text(results, simulated=False)
    assert "ok       runtime, slice           it saw it alone (used for jobs)" in text
    assert "smi=0" in text and "1 of 2 were not tried" in text
    assert "The driver is simulated" in smoke_text(results, simulated=True)
    assert smoke_text((), simulated=True) == ""
    assert '"verdict": "untried"' in as_json((), results)


def test_a_policy_that_cannot_be_trusted_is_refused_in_a_sentence(tmp_path, capsys):
    path = tmp_path / "policy.toml"
    path.write_text('device_injection = "hook"\n', "utf-8")
    assert doctor(parser().parse_args(["doctor", "--policy", str(path)])) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "device_injection must be one of auto, runtime, cdi, nvidia" in printed.err
