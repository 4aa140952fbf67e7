"""Saved passes are planned as they were when they were saved, decision by decision.

A change that is meant to plan otherwise records them anew: see `saved_passes`.
"""

from scheduler.core.model.reasons import ReasonCode
from scheduler.core.plan import plan
from scheduler.core.snapshot_file import read_pass
from tests.property.core.saved_passes import as_text, saved


def test_saved_passes_are_planned_to_the_same_bytes():
    differing = [
        number
        for number, (text, planned) in enumerate(saved())
        if as_text(plan(*read_pass(text))) != planned
    ]
    assert not differing


def test_the_saved_passes_have_a_bit_of_everything():
    plans = [planned for _, planned in saved()]
    for kind in ("placements", "merges", "carves", "preemptions", "reservations", "bypassed"):
        assert sum(f'"{kind}":[]' not in planned for planned in plans) >= 5, kind
    codes = {code for code in ReasonCode if any(f'"{code}"' in planned for planned in plans)}
    assert codes >= {
        ReasonCode.RESOURCES,
        ReasonCode.RESERVATION,
        ReasonCode.PRIORITY,
        ReasonCode.QUOTA_PROJECT,
        ReasonCode.QUOTA_USER,
        ReasonCode.IMPOSSIBLE,
        ReasonCode.REPARTITION,
        ReasonCode.NODE_UNAVAILABLE,
    }
