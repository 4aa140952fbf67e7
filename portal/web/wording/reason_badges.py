"""Why a job waits in one word, with icon and colour; the sentence stands beside it."""

from django.utils.translation import gettext_lazy

from portal.web.wording.labels import Badge
from scheduler.core.model.reasons import ReasonCode

# Waiting is grey; a colour says that something is being done, or who has to do something.
REASONS: dict[str, Badge] = {
    ReasonCode.APPROVAL: Badge("ask", "ask", gettext_lazy("Approval")),
    ReasonCode.QUOTA_USER: Badge("wait", "coin", gettext_lazy("User quota")),
    ReasonCode.QUOTA_PROJECT: Badge("wait", "coin", gettext_lazy("Project quota")),
    ReasonCode.BUDGET: Badge("warn", "coin", gettext_lazy("Budget")),
    ReasonCode.PENDING_LIMIT: Badge("wait", "layers", gettext_lazy("Limit of waiting jobs")),
    ReasonCode.PRIORITY: Badge("wait", "layers", gettext_lazy("Others go first")),
    ReasonCode.RESOURCES: Badge("wait", "layers", gettext_lazy("Not enough free")),
    ReasonCode.FRAGMENTATION: Badge("wait", "frag", gettext_lazy("Fragmentation")),
    ReasonCode.TOPOLOGY: Badge("wait", "frag", gettext_lazy("Topology")),
    ReasonCode.RESERVATION: Badge("wait", "cal", gettext_lazy("Reservation")),
    ReasonCode.REPARTITION: Badge("move", "cut", gettext_lazy("Carving")),
    ReasonCode.NODE_UNAVAILABLE: Badge("ask", "alert", gettext_lazy("Node away")),
    ReasonCode.DEPENDENCY: Badge("wait", "clock", gettext_lazy("Waits for a job")),
    ReasonCode.BEGIN_TIME: Badge("wait", "cal", gettext_lazy("Begin time")),
    ReasonCode.HELD: Badge("ask", "stop", gettext_lazy("Held")),
    ReasonCode.IMAGE_PULL: Badge("move", "dl", gettext_lazy("Image pull")),
    ReasonCode.IMPOSSIBLE: Badge("warn", "alert", gettext_lazy("Never fits here")),
}
UNREAD = Badge("wait", "clock", gettext_lazy("Not looked at yet"))


def reason_badge(code: str) -> Badge:
    """Of a stored reason's code; "" while no pass has looked at the job."""
    return REASONS.get(code, UNREAD)
