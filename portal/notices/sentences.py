"""What a notice says, in the language and time zone that are active."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, QuerySet
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.audit.models import Event
from portal.jobs.models import Job
from portal.notices.kinds import NoticeKind
from portal.notices.models import Notice
from scheduler.core.model.states import JobStatus

# Lines of a message; the rest is counted.
MAX_LINES = 12


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """One notice: a sentence, the cause of an end, and the page that it is about."""

    title: str
    cause: str
    href: str

    @property
    def text(self) -> str:
        return f"{self.title}: {self.cause}" if self.cause else self.title


@dataclass(frozen=True, slots=True)
class Digest:
    """Notices for one reader as one message."""

    headline: str
    lines: list[NoticeLine]
    hidden: int
    """Notices without a line of their own."""

    @property
    def notice_count(self) -> int:
        return len(self.lines) + self.hidden


def digest(notices: QuerySet[Notice], base_url: str) -> Digest | None:
    """One message about these notices; None if none of them is worth one any more. However many
    they are, only those with a line are read whole."""
    current = notices.exclude(pk__in=_outdated(notices)).order_by("id")
    lines = [notice_line(row, base_url) for row in current.select_related("job")[:MAX_LINES]]
    if not lines:
        return None
    if len(lines) == 1:
        return Digest(lines[0].title, lines, 0)
    counts = dict(current.order_by().values_list("kind").annotate(Count("pk")))
    return Digest(_counts(counts), lines, sum(counts.values()) - len(lines))


def notice_line(notice: Notice, base_url: str) -> NoticeLine:
    """`base_url`: of the portal, empty for a line without an address."""
    path = f"/jobs/{notice.job.label}/" if notice.job else _PATHS.get(NoticeKind(notice.kind), "/")
    if notice.job:
        title = _of_job(notice, notice.job)
    elif notice.kind == NoticeKind.BUDGET:
        title = _of_budget(notice)
    else:
        title = _of_node(notice)
    cause = ""
    if notice.job and notice.kind == NoticeKind.FAILED and "idle" not in notice.data:
        cause = render_to_string("notices/cause.txt", {"job": notice.job}).strip()
    return NoticeLine(title, cause, f"{base_url}{path}" if base_url else "")


_PATHS = {NoticeKind.BUDGET: "/usage/", NoticeKind.NODE: "/cluster/"}


def _of_job(notice: Notice, job: Job) -> str:
    names = {"job": job.label, "name": job.name}
    match NoticeKind(notice.kind):
        case NoticeKind.STARTED:
            waited = int(notice.data.get("minutes", 0))
            sentence = ngettext(
                "%(job)s %(name)s has started after %(n)s minute of waiting",
                "%(job)s %(name)s has started after %(n)s minutes of waiting",
                waited,
            )
            return sentence % (names | {"n": waited})
        case NoticeKind.ENDING if "idle" in notice.data:
            return _idle(notice.data["idle"], names)
        case NoticeKind.ENDING if "hung" in notice.data:
            return _hung(notice.data["hung"], names)
        case NoticeKind.ENDING:
            at = timezone.localtime(datetime.fromisoformat(notice.data["deadline_at"]))
            return _("%(job)s %(name)s reaches its time limit at %(at)s") % (
                names | {"at": f"{at:%Y-%m-%d %H:%M %Z}"}
            )
        case NoticeKind.FAILED if "idle" in notice.data:
            return _("%(job)s %(name)s was stopped: its GPUs were idle") % names
        case NoticeKind.FAILED if notice.data.get("status") == JobStatus.TIMED_OUT:
            return _("%(job)s %(name)s was stopped at its time limit") % names
        case NoticeKind.FAILED:
            return _("%(job)s %(name)s failed") % names
        case _ if notice.data.get("status") == JobStatus.CANCELLED:
            return _("%(job)s %(name)s was cancelled by %(actor)s") % (
                names | {"actor": notice.data.get("actor", "")}
            )
        case _:
            return _("%(job)s %(name)s succeeded") % names


def _hung(stops_at: str, names: dict[str, str]) -> str:
    if not stops_at:
        return _("%(job)s %(name)s makes no progress") % names
    at = timezone.localtime(datetime.fromisoformat(stops_at))
    return _("%(job)s %(name)s makes no progress, and is stopped at %(at)s unless it does") % (
        names | {"at": f"{at:%Y-%m-%d %H:%M %Z}"}
    )


def _idle(stops_at: str, names: dict[str, str]) -> str:
    if not stops_at:
        return _("%(job)s %(name)s holds GPUs and does not use them") % names
    at = timezone.localtime(datetime.fromisoformat(stops_at))
    return _("%(job)s %(name)s does not use its GPUs, and is stopped at %(at)s unless it does") % (
        names | {"at": f"{at:%Y-%m-%d %H:%M %Z}"}
    )


def _of_budget(notice: Notice) -> str:
    data: dict[str, str] = notice.data
    if data["user"]:
        return (
            _("%(percent)s %% of the budget of %(user)s in %(project)s is used or reserved") % data
        )
    return _("%(percent)s %% of the budget of %(project)s is used or reserved") % data


def _of_node(notice: Notice) -> str:
    """The node, and what its history says about it."""
    event = Event.objects.filter(pk=notice.data.get("event")).first()
    said = render_to_string("notices/event.txt", {"event": event}).strip() if event else ""
    return f"{notice.data['node']}: {said}" if said else str(notice.data["node"])


def _counts(found: Mapping[str, int]) -> str:
    """ "12 jobs failed, 2 jobs end soon"."""
    counts = {str(kind): found.get(kind, 0) for kind in NoticeKind}
    sentences: dict[str, str] = {
        NoticeKind.FAILED: ngettext("%(n)s job failed", "%(n)s jobs failed", counts["failed"]),
        NoticeKind.ENDING: ngettext("%(n)s job ends soon", "%(n)s jobs end soon", counts["ending"]),
        NoticeKind.STARTED: ngettext(
            "%(n)s job has started", "%(n)s jobs have started", counts["started"]
        ),
        NoticeKind.ENDED: ngettext("%(n)s job ended", "%(n)s jobs ended", counts["ended"]),
        NoticeKind.BUDGET: ngettext(
            "%(n)s budget is nearly used up", "%(n)s budgets are nearly used up", counts["budget"]
        ),
        NoticeKind.NODE: ngettext("%(n)s node problem", "%(n)s node problems", counts["node"]),
    }
    parts = [sentences[kind] % {"n": n} for kind, n in counts.items() if n]
    return _(", ").join(parts)


def _outdated(notices: QuerySet[Notice]) -> list[int]:
    """Of ends that come near: the job has ended meanwhile, or has another limit."""
    columns = ("pk", "data", "job__status", "job__deadline_at")
    rows = notices.filter(kind=NoticeKind.ENDING).values_list(*columns)
    return [
        pk
        for pk, data, status, deadline_at in rows
        if status != JobStatus.RUNNING or deadline_at != _deadline(data, deadline_at)
    ]


def _deadline(data: Mapping[str, str], present: datetime | None) -> datetime | None:
    """The time limit that was told; of an idle job, none was."""
    return datetime.fromisoformat(data["deadline_at"]) if "deadline_at" in data else present
