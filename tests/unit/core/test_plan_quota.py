"""Quotas hold, at once and to the unit, and the answer tells what is held and what is left."""

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.reasons import ReasonCode
from tests.support.snapshots import (
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    devices,
    placed,
    plan_of,
    reason,
)

NODE = a_node(*[a_gpu()] * 8)
UNITS = {"limit_units": UNITS_PER_GPU, "used_units": UNITS_PER_GPU, "needed_units": UNITS_PER_GPU}


def with_quotas(*quotas, jobs):
    return plan_of(a_cluster(NODE, jobs=jobs, quotas=quotas))


def test_what_was_placed_in_a_pass_counts_for_the_next_job_of_the_pass():
    jobs = [a_job(str(i), gpus=1) for i in range(1, 5)]
    found = with_quotas(a_quota(gpus=2), jobs=jobs)
    assert placed(found) == ["1", "2"]
    assert {h.reason.code for h in found.deferrals} == {ReasonCode.QUOTA_PROJECT}


def test_what_a_user_was_given_in_a_pass_counts_for_their_next_job():
    jobs = [a_job(str(i), gpus=1) for i in range(1, 4)]
    found = with_quotas(a_quota(gpus=8), a_quota("p", "u", gpus=2), jobs=jobs)
    assert placed(found) == ["1", "2"]
    assert reason(found, "3").code is ReasonCode.QUOTA_USER


def test_a_project_at_its_limit_waits_and_is_told_the_numbers():
    found = with_quotas(a_quota(gpus=1, used=1), jobs=[a_job(gpus=1)])
    said = reason(found)
    assert said.code is ReasonCode.QUOTA_PROJECT
    assert said.evidence == UNITS
    assert "p may use 1" in said.sentence
    assert "this needs 1" in said.sentence


def test_a_user_at_their_limit_waits_though_the_project_has_room():
    quotas = (a_quota(gpus=8), a_quota("p", "u", gpus=1, used=1))
    found = with_quotas(*quotas, jobs=[a_job("1", gpus=1), a_job("2", user="other", gpus=1)])
    said = reason(found, "1")
    assert said.code is ReasonCode.QUOTA_USER
    assert said.evidence == UNITS
    assert said.sentence.startswith("u in p may use")
    assert placed(found) == ["2"]


def test_a_quota_is_spent_to_the_last_unit_and_not_one_further():
    jobs = [a_job(str(i), mig="1g.18gb") for i in range(1, 9)]
    assert len(placed(with_quotas(a_quota(gpus=7 / 7), jobs=jobs))) == 7
    assert len(placed(with_quotas(a_quota(gpus=(56_000 - 1) / 56_000), jobs=jobs))) == 6


def test_a_gang_is_charged_whole():
    gang = a_job(gpus=1, replicas=3)
    assert (
        reason(with_quotas(a_quota(gpus=4, used=2), jobs=[gang])).code is ReasonCode.QUOTA_PROJECT
    )
    assert placed(with_quotas(a_quota(gpus=4, used=1), jobs=[gang])) == ["1"]


def test_another_projects_quota_is_nobody_elses():
    quotas = (a_quota("p", gpus=1, used=1), a_quota("q", gpus=1))
    found = with_quotas(*quotas, jobs=[a_job("1", gpus=1), a_job("2", project="q", gpus=1)])
    assert placed(found) == ["2"]


def test_a_gang_that_found_no_place_is_not_charged():
    full = a_node(a_gpu(), a_gpu(), cpu_free_milli=1_000)
    jobs = [a_job("1", gpus=1, replicas=2), a_job("2", gpus=1)]
    found = plan_of(a_cluster(full, jobs=jobs, quotas=(a_quota(gpus=2),)))
    assert placed(found) == ["2"]


def test_a_quota_that_was_lowered_below_what_is_held_gives_nothing_more():
    said = reason(with_quotas(a_quota(gpus=2, used=3), jobs=[a_job(gpus=1)]))
    assert said.code is ReasonCode.QUOTA_PROJECT
    assert said.evidence["used_units"] > said.evidence["limit_units"]
    assert "0 are left" in said.sentence


def test_memory_takes_a_device_that_the_quota_can_pay():
    """The cheapest kind is affordable: no dearer one is taken although it would be idle."""
    found = with_quotas(a_quota(gpus=8, used=7.5), jobs=[a_job(device_mib=70_000)])
    assert devices(found)[0][1] == "3g.71gb"
    said = reason(with_quotas(a_quota(gpus=8, used=7.75), jobs=[a_job(device_mib=70_000)]))
    assert said.code is ReasonCode.QUOTA_PROJECT
    assert said.evidence["needed_units"] == UNITS_PER_GPU // 2
