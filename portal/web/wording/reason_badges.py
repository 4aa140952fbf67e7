"""Why a job waits, as a badge and as the style of its panel."""

from django.utils.translation import gettext_lazy

from portal.web.wording.labels import Badge
from scheduler.core.model.reasons import ReasonClass, ReasonCode

# Waiting is normal and grey; a colour means that work is under way or that somebody must act.
REASONS: dict[str, Badge] = {
    ReasonCode.APPROVAL: Badge("ask", "ask", gettext_lazy("Approval")),
    ReasonCode.QUOTA_USER: Badge("wait", "coin", gettext_lazy("User quota")),
    ReasonCode.QUOTA_PROJECT: Badge("wait", "coin", gettext_lazy("Project quota")),
    ReasonCode.BUDGET: Badge("warn", "coin", gettext_lazy("Budget")),
    ReasonCode.PENDING_LIMIT: Badge("wait", "layers", gettext_lazy("Pending job limit")),
    ReasonCode.PRIORITY: Badge("wait", "layers", gettext_lazy("Behind other jobs")),
    ReasonCode.RESOURCES: Badge("wait", "layers", gettext_lazy("Insufficient resources")),
    ReasonCode.FRAGMENTATION: Badge("wait", "frag", gettext_lazy("Fragmentation")),
    ReasonCode.TOPOLOGY: Badge("wait", "frag", gettext_lazy("Topology")),
    ReasonCode.RESERVATION: Badge("wait", "cal", gettext_lazy("Reservation")),
    ReasonCode.REPARTITION: Badge("move", "cut", gettext_lazy("Carving")),
    ReasonCode.NODE_UNAVAILABLE: Badge("ask", "alert", gettext_lazy("Node unavailable")),
    ReasonCode.DEPENDENCY: Badge("wait", "clock", gettext_lazy("Dependency")),
    ReasonCode.BEGIN_TIME: Badge("wait", "cal", gettext_lazy("Begin time")),
    ReasonCode.HELD: Badge("ask", "stop", gettext_lazy("Held")),
    ReasonCode.IMPOSSIBLE: Badge("warn", "alert", gettext_lazy("Cannot run on this cluster")),
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
