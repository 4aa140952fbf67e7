"""Every reason has a row with all its properties, and pages, estimates and the demo read that."""

import pytest

from agents.contract.message import TEMPLATES
from portal.demo.scale.reasons import WEIGHTS
from scheduler.core.model.reasons import REASON_KINDS, ReasonClass, ReasonCode
from tests.support.chinese import chinese_catalogue


def test_every_code_has_a_row():
    assert set(REASON_KINDS) == set(ReasonCode)


@pytest.mark.parametrize("code", ReasonCode)
def test_what_a_row_shows_has_its_chinese(code):
    kind = code.kind
    for text in (kind.label, kind.alert):
        assert chinese_catalogue().gettext(text) != text


@pytest.mark.parametrize("code", [code for code in ReasonCode if not code.kind.is_simulated])
def test_a_reason_without_an_estimate_has_a_sentence_that_says_why(code):
    assert f"no_estimate.{code.kind.no_estimate}" in TEMPLATES


def test_what_waits_for_devices_is_simulated_and_what_waits_for_a_decision_is_not():
    assert all(kind.reason_class is ReasonClass.WAIT for kind in _kinds(simulated=True))
    assert {kind.label for kind in _kinds(simulated=False) if kind.is_alterable} == {
        "User quota",
        "Project quota",
        "Budget",
    }


def test_the_demonstration_shows_every_reason_that_a_queued_job_can_have():
    in_large_clusters = set(WEIGHTS) | {ReasonCode.APPROVAL, ReasonCode.PENDING_LIMIT}
    assert set(ReasonCode) - in_large_clusters == {ReasonCode.IMPOSSIBLE}


def _kinds(*, simulated):
    return [kind for kind in REASON_KINDS.values() if kind.is_simulated is simulated]
