"""What people are told, and which of it without asking. Pure."""

from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy


class NoticeKind(StrEnum):
    FAILED = "failed"
    ENDING = "ending"
    STARTED = "started"
    ENDED = "ended"
    BUDGET = "budget"
    NODE = "node"


# Quiet by default: only what is lost if nobody acts.
DEFAULT_KINDS = frozenset({NoticeKind.FAILED, NoticeKind.ENDING})
# What a job's `notify` asks for, whatever its owner has chosen for other jobs.
KINDS_OF_JOBS = frozenset(
    {NoticeKind.FAILED, NoticeKind.ENDING, NoticeKind.STARTED, NoticeKind.ENDED}
)
# Only platform admins are told of nodes.
ADMIN_KINDS = frozenset({NoticeKind.NODE})

KIND_LABELS: dict[NoticeKind, str | Promise] = {
    NoticeKind.FAILED: gettext_lazy(
        "My job failed, reached its time limit, or was stopped as idle"
    ),
    NoticeKind.ENDING: gettext_lazy("My job is about to reach its time limit, or idle"),
    NoticeKind.STARTED: gettext_lazy("My job started after a long wait"),
    NoticeKind.ENDED: gettext_lazy("My job succeeded or was cancelled"),
    NoticeKind.BUDGET: gettext_lazy(
        "My budget, or one of a project that I administer, is nearly used up"
    ),
    NoticeKind.NODE: gettext_lazy("A node or GPU fails"),
}
