"""Whose instance it is: a table of what the journal claims and what the driver lists."""

from dataclasses import replace

import pytest

from agents.facts.gpus import InstanceFacts
from agents.facts.partitions import InstanceClaim
from agents.partitioning.ownership import claim_for, judge_ownership
from agents.partitioning.steps import WantedSlice
from agents.state.journal import Journal

GPU = "GPU-1"
LIVE = InstanceFacts(GPU, 5, 14, "2g.35gb", 4, 2, "MIG-1")
HALF = replace(LIVE, uuid="")
CLAIM = claim_for(LIVE)
INTENDED = replace(CLAIM, instance_id=None, uuid="")


def judge(instance, claim=None, *, wanted=(), adopt=False):
    return judge_ownership([instance], wanted, {claim.place: claim} if claim else {}, adopt=adopt)


@pytest.mark.parametrize(
    ("instance", "claim"),
    [
        (LIVE, CLAIM),
        (LIVE, INTENDED),  # killed after it was made, before it was written down
        (HALF, INTENDED),  # killed between its two halves
        (HALF, CLAIM),  # killed while it was deleted: its compute instance went
        (LIVE, replace(CLAIM, uuid="")),  # killed after it was completed
        (replace(LIVE, instance_id=9), CLAIM),  # numbers are opaque, the UUID is its own
    ],
)
def test_what_the_journal_claims_is_ours(instance, claim):
    found = judge(instance, claim)
    assert found.foreign == {}
    assert found.claims == (() if claim_for(instance) == claim else (claim_for(instance),))


@pytest.mark.parametrize(
    ("instance", "claim"),
    [
        (LIVE, None),
        (HALF, None),
        (replace(LIVE, uuid="MIG-2"), CLAIM),  # ours is gone, another was made in its place
        (replace(HALF, instance_id=9), CLAIM),
        (replace(LIVE, profile="1g.35gb"), INTENDED),
        (replace(LIVE, start=2), INTENDED),
        (replace(LIVE, gpu_uuid="GPU-2"), INTENDED),
    ],
)
def test_what_it_does_not_claim_is_somebody_elses(instance, claim):
    found = judge(instance, claim)
    assert found.foreign == {instance.gpu_uuid: (instance,)}
    assert found.claims == ()


def test_what_is_wanted_at_just_its_place_is_ours_from_now_on():
    want = WantedSlice(GPU, "2g.35gb", 4, 2, "s-1")
    assert judge(LIVE, wanted=[want]).claims == (CLAIM,)
    assert judge(LIVE, wanted=[replace(want, profile="1g.35gb")]).foreign
    assert judge(LIVE, wanted=[replace(want, gpu_uuid="GPU-2")]).foreign


def test_the_owner_may_give_us_all_that_stands():
    assert judge(LIVE, adopt=True).claims == (CLAIM,)


def test_claims_outlive_the_agent_and_one_takes_the_place_of_another(tmp_path):
    path = tmp_path / "journal.sqlite3"
    journal = Journal(path)
    journal.record_claims([INTENDED, InstanceClaim(GPU, 0, 4, "3g.71gb")])
    journal.record_claims([CLAIM])
    journal.remove_claim(GPU, 0, 4)
    journal.close()
    again = Journal(path)
    assert again.claims() == [CLAIM]
    again.close()
