"""Why a job waits, as a badge and as the style of its panel."""

from django.utils.translation import gettext_lazy

from portal.web.wording.labels import Badge
from scheduler.core.model.reasons import REASON_KINDS, ReasonClass

REASONS: dict[str, Badge] = {
    code: Badge(kind.tone, kind.icon, gettext_lazy(kind.label))
    for code, kind in REASON_KINDS.items()
}
NOT_EVALUATED = Badge("wait", "clock", gettext_lazy("Not evaluated yet"))

# Colour class and icon of a panel that shows a reason of this class.
REASON_STYLES = {
    ReasonClass.WAIT: ("wait", "clock"),
    ReasonClass.CHANGE: ("warn", "alert"),
    ReasonClass.ASK: ("ask", "ask"),
}


def reason_badge(code: str) -> Badge:
    """The badge of a stored reason's code; "" before the first planning pass over the job."""
    return REASONS.get(code, NOT_EVALUATED)
