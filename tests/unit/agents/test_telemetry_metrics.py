"""The page for Prometheus: DCGM's names and units, escaped labels, and nothing that was not
measured."""

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agents.contract.documents import (
    NodeFacts,
    ObservedDocument,
    ObservedGpu,
    ObservedReplica,
    ReplicaState,
    SliceProblem,
)
from agents.contract.telemetry import GpuSample, MissingReason, MissingValue, SliceSample
from agents.telemetry.metrics import OF_DEVICE, OF_GPU, State, families

GPU = "GPU-1"
NASTY = 'H"20\\0\nDCGM_FI_DEV_GPU_UTIL 99'


def a_document(**fields) -> ObservedDocument:
    gpu = ObservedGpu(uuid=GPU, index=3, product_name="NVIDIA H200")
    return ObservedDocument(**{"node": "n-1", "gpus": (gpu,)} | fields)


def a_sample(**fields) -> GpuSample:
    return GpuSample(**{"uuid": GPU} | fields)


def page(*samples: GpuSample, document: ObservedDocument | None = None, **fields) -> str:
    state = State("host-1", document or a_document(), samples, **fields)

    class Told:
        def collect(self):
            return families(state)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told())
    return generate_latest(registry).decode()


def values(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """By the sample's name: (labels without empty ones, value)."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if value}
            found.setdefault(sample.name, []).append((labels, sample.value))
    return found


def test_a_whole_gpu_is_told_with_the_exporters_names_labels_and_units():
    told = values(
        page(
            a_sample(
                utilization_percent=87,
                memory_used_mib=1_000,
                memory_total_mib=143_771,
                power_mw=412_500,
                energy_mj=123_456,
                active_percent=50,
            )
        )
    )
    labels = {
        "gpu": "3",
        "UUID": GPU,
        "device": "nvidia3",
        "modelName": "NVIDIA H200",
        "Hostname": "host-1",
    }
    assert told["DCGM_FI_DEV_GPU_UTIL"] == [(labels, 87)]
    assert told["DCGM_FI_DEV_FB_USED"] == [(labels, 1_000)]
    assert told["DCGM_FI_DEV_FB_FREE"] == [(labels, 142_771)]
    assert told["DCGM_FI_DEV_POWER_USAGE"] == [(labels, 412.5)]
    assert told["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == [(labels, 123_456)]
    assert told["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == [(labels, 0.5)]


def test_what_is_not_measurable_is_absent_and_never_zero():
    told = values(
        page(a_sample(missing=(MissingValue("utilization_percent", MissingReason.MIG_MODE),)))
    )
    names = {number.name for number in (*OF_GPU, *OF_DEVICE)}
    assert names & set(told) == set()
    ((labels, value),) = told["tessera_agent_not_measurable"]
    assert (labels["value"], labels["why"], value) == ("utilization_percent", "mig_mode", 1)


def test_a_zero_that_was_measured_is_told():
    assert values(page(a_sample(utilization_percent=0)))["DCGM_FI_DEV_GPU_UTIL"][0][1] == 0


def test_memory_of_a_gpu_in_mig_mode_is_that_of_its_instances_so_a_sum_counts_it_once():
    pieces = (
        SliceSample("MIG-a", 7, "1g.18gb", memory_used_mib=10, memory_total_mib=16_384),
        SliceSample("MIG-b", 1, "3g.71gb", memory_used_mib=20, memory_total_mib=71_168),
    )
    sample = a_sample(memory_used_mib=30, memory_total_mib=143_771, power_mw=1_000, slices=pieces)
    told = values(page(sample))
    assert [
        (labels["GPU_I_ID"], labels["GPU_I_PROFILE"], labels["UUID"], value)
        for labels, value in told["DCGM_FI_DEV_FB_USED"]
    ] == [("7", "1g.18gb", GPU, 10), ("1", "3g.71gb", GPU, 20)]
    ((labels, _),) = told["DCGM_FI_DEV_POWER_USAGE"]
    assert "GPU_I_ID" not in labels


def test_no_word_of_a_driver_or_a_host_becomes_a_line_of_its_own():
    gpu = ObservedGpu(uuid=GPU, index=0, product_name=NASTY)
    text = page(a_sample(power_mw=1), document=a_document(gpus=(gpu,)))
    (line,) = [found for found in text.splitlines() if found.startswith("DCGM_FI_DEV_POWER_USAGE{")]
    assert r"H\"20\\0\nDCGM_FI_DEV_GPU_UTIL 99" in line
    told = values(text)
    assert told["DCGM_FI_DEV_POWER_USAGE"][0][0]["modelName"] == NASTY
    assert "DCGM_FI_DEV_GPU_UTIL" not in told


def test_every_line_has_help_and_type_before_it_and_a_name_that_is_allowed():
    text = page(
        a_sample(
            energy_mj=1,
            nvlink_sent_kib=2,
            memory_used_mib=1,
            memory_total_mib=2,
            missing=(MissingValue("power_mw", MissingReason.DRIVER_ERROR),),
        ),
        age_seconds=1.5,
    )
    announced = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            announced.add(line.split()[2])
        elif not line.startswith("#"):
            name = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line).group()
            assert name in announced
            assert f"# HELP {name} " in text


def test_nvlink_is_told_in_bytes_that_only_grow():
    told = values(page(a_sample(nvlink_sent_kib=3, nvlink_received_kib=4)))
    assert told["tessera_gpu_nvlink_sent_bytes_total"][0][1] == 3 * 1024
    assert told["tessera_gpu_nvlink_received_bytes_total"][0][1] == 4 * 1024


def test_a_gpu_that_the_agent_has_not_reported_is_told_next_time():
    assert "DCGM" not in page(a_sample(uuid="GPU-new", power_mw=1))


def test_the_agents_own_work_is_told():
    replica = ObservedReplica("r-1", "j-1", state=ReplicaState.RUNNING)
    document = a_document(
        replicas=(replica,),
        problems=(SliceProblem(GPU),),
        facts=NodeFacts(problems=("disk", "time"), blocks=("toolkit",)),
    )
    told = values(page(document=document, rounds=5, readings=7, failed_readings=1))
    assert told["tessera_agent_rounds_total"] == [({}, 5)]
    assert told["tessera_agent_telemetry_failures_total"] == [({}, 1)]
    states = {labels["state"]: value for labels, value in told["tessera_agent_replicas"]}
    assert (states["running"], states["failed"]) == (1, 0)
    assert {labels["kind"]: value for labels, value in told["tessera_agent_problems"]} == {
        "partition": 1,
        "preflight": 2,
        "preflight_block": 1,
    }
    assert "tessera_agent_telemetry_age_seconds" not in told


@pytest.mark.parametrize("field", [number.field for number in (*OF_GPU, *OF_DEVICE)])
def test_each_family_reads_a_field_that_a_sample_has(field):
    assert getattr(a_sample(**{field: 7}), field) == 7
    assert "tessera_agent_rounds_total" in values(page(a_sample(**{field: 7})))
