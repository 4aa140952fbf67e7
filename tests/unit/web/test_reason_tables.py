"""Every reason has its badge, and either a simulated start or a sentence that says why not."""

from portal.planning.estimates import NO_ESTIMATE_KEYS
from portal.web.wording.reason_badges import REASONS
from scheduler.core.forecast.pass_estimates import SIMULATED_REASONS
from scheduler.core.model.reasons import REASON_CLASSES, ReasonCode


def test_every_reason_has_a_badge_and_a_class():
    assert set(REASONS) == set(ReasonCode)
    assert set(REASON_CLASSES) == set(ReasonCode)


def test_every_reason_has_an_estimate_or_says_why_it_has_none():
    assert SIMULATED_REASONS | set(NO_ESTIMATE_KEYS) == set(ReasonCode)
    assert SIMULATED_REASONS & set(NO_ESTIMATE_KEYS) == set()
