"""What needs a platform admin's attention now, each with a count and a link to the list."""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import User
from portal.allocations.budgets import current_budgets, is_nearly_used
from portal.inventory.models import DisputedClaim, Gpu, Node
from portal.jobs.models import Job
from portal.leases.models import TaskLease
from portal.node_pairs.selectors import bad_pairs
from portal.quotas.limit_requests import limit_requests_to_decide
from portal.storage.models import ByteStore
from portal.submission.approvals import jobs_to_approve
from portal.web.wording.labels import duration
from scheduler.core.model.reasons import REASON_KINDS, ReasonClass, ReasonCode
from scheduler.core.model.states import GpuHealth, JobStatus, NodeStatus

# The sweep is rung every few seconds and a rung duty at once; one this late is not being done.
OVERDUE_AFTER = timedelta(seconds=60)
# Bytes were written to a folder this recently.
FOLDERS_WITHIN = timedelta(days=1)
MAX_NAMES = 4
MAX_PAIRS = 1_000
NODE_COLUMNS = ("name", "frozen_at", "holding_since", "last_seen_at", "created_at")
ADMIN_REASONS = [
    str(code) for code, kind in REASON_KINDS.items() if kind.reason_class is ReasonClass.ASK
]


@dataclass(frozen=True, slots=True)
class Alert:
    """One line of the list, with the class and icon of a status."""

    key: str
    cls: str
    icon: str
    count: int
    title: str
    href: str
    # The first few of the nodes, jobs, budgets ... that it counts.
    names: tuple[str, ...] = ()

    @property
    def hidden_names(self) -> int:
        return self.count - len(self.names)


def active_alerts(user: User) -> list[Alert]:
    """Most urgent first. Twelve queries."""
    alerts = [
        *_disputes(),
        *_nodes(),
        *_gpus(),
        *_pairs(),
        *_duties(),
        *_approvals(user),
        *_limit_requests(user),
        *_waiting(),
        *_budgets(),
    ]
    alerts += _folders()
    return [alert for alert in alerts if alert.count]


def _folders() -> list[Alert]:
    """Several hosts keep logs in folders of their own: each shows only a part of them."""
    rows = ByteStore.objects.exclude(host="").filter(used_at__gt=timezone.now() - FOLDERS_WITHIN)
    names = [str(row) for row in rows]
    if len(names) < 2:
        return []
    title = _("%(n)s web hosts keep logs on disks of their own") % {"n": len(names)}
    shown = tuple(names[:MAX_NAMES])
    return [Alert("folders", "ask", "alert", len(names), title, reverse("web:storage"), shown)]


def _approvals(user: User) -> list[Alert]:
    rows = jobs_to_approve(user)
    count = rows.count()
    title = ngettext("%(n)s job waits for approval", "%(n)s jobs wait for approval", count)
    names = tuple(job.label for job in rows[:MAX_NAMES])
    href = reverse("web:approvals")
    return [Alert("approvals", "ask", "ask", count, title % {"n": count}, href, names)]


def _limit_requests(user: User) -> list[Alert]:
    names = [str(row.job.label) for row in limit_requests_to_decide(user)]
    title = ngettext(
        "%(n)s request for a higher limit", "%(n)s requests for higher limits", len(names)
    )
    return [_alert("limit_requests", "ask", "ask", names, title, reverse("web:limit_requests"))]


def _disputes() -> list[Alert]:
    rows = DisputedClaim.objects.undecided().order_by("id")
    names = [
        f"{gpu} ({holder}, {claimant})"
        for gpu, holder, claimant in rows.values_list(
            "gpu__uuid", "gpu__node__name", "claimant__name"
        )
    ]
    title = ngettext(
        "%(n)s GPU is reported by two nodes", "%(n)s GPUs are reported by two nodes", len(names)
    )
    return [_alert("disputes", "bad", "alert", names, title, reverse("web:disputes"))]


def _nodes() -> list[Alert]:
    now = timezone.now()
    silent = list(Node.objects.silent().values_list("name", flat=True))
    online = Node.objects.filter(status=NodeStatus.ONLINE, facts__has_key="blocks")
    blocked = list(online.exclude(facts__blocks=[]).values_list("name", flat=True))
    away_title = ngettext("%(n)s node is unreachable", "%(n)s nodes are unreachable", len(silent))
    blocked_title = ngettext(
        "%(n)s node is blocked by a problem", "%(n)s nodes are blocked by a problem", len(blocked)
    )
    concerned = ~Q(frozen_at=None) | ~Q(holding_since=None) | Q(last_seen_at=None)
    rows = list(Node.objects.active().filter(concerned).only(*NODE_COLUMNS))
    frozen = [node.name for node in rows if node.frozen_at]
    frozen_title = ngettext(
        "The key of %(n)s node is frozen: two machines use it",
        "The keys of %(n)s nodes are frozen: two machines use each",
        len(frozen),
    )
    holding = [node.name for node in rows if node.holding_since]
    unseen = [
        _("%(node)s, added %(since)s ago")
        % {"node": node.name, "since": duration((now - node.created_at).total_seconds())}
        for node in rows
        if node.last_seen_at is None
    ]
    unseen_title = ngettext(
        "%(n)s node was added and never seen", "%(n)s nodes were added and never seen", len(unseen)
    )
    holding_title = ngettext(
        "%(n)s node holds back: it runs work that the portal does not know",
        "%(n)s nodes hold back: they run work that the portal does not know",
        len(holding),
    )
    return [
        _alert("holding", "bad", "alert", holding, holding_title, _nodes_url("holding")),
        _alert("frozen", "bad", "alert", frozen, frozen_title, _nodes_url("key")),
        _alert("away", "bad", "x", silent, away_title, _nodes_url("away")),
        _alert("blocked", "bad", "stop", blocked, blocked_title, _nodes_url("blocked")),
        _alert("unseen", "warn", "clock", unseen, unseen_title, _nodes_url("unseen")),
    ]


def _gpus() -> list[Alert]:
    rows = Gpu.objects.exclude(health=GpuHealth.OK).exclude(node__status=NodeStatus.RETIRED)
    names = [
        f"{node} GPU {index}"
        for node, index in rows.order_by("node__name", "index").values_list("node__name", "index")
    ]
    title = ngettext("%(n)s GPU is out of service", "%(n)s GPUs are out of service", len(names))
    return [_alert("gpus", "bad", "alert", names, title, _nodes_url("faulted"))]


def _pairs() -> list[Alert]:
    rows = bad_pairs()[:MAX_PAIRS]
    names = [f"{row.first.name} – {row.second.name}" for row in rows]
    title = ngettext(
        "%(n)s pair of nodes is slow or wrong", "%(n)s pairs of nodes are slow or wrong", len(names)
    )
    href = reverse("web:node_pairs", args=[rows[0].first.name]) if names else ""
    return [_alert("pairs", "warn", "alert", names, title, href)]


def _waiting() -> list[Alert]:
    rows = Job.objects.filter(status=JobStatus.QUEUED, reason__code__in=ADMIN_REASONS)
    counts = rows.order_by().values_list("reason__code").annotate(n=Count("id"))
    return [
        Alert(
            f"waiting-{code}",
            "ask",
            "clock",
            count,
            _(ReasonCode(code).kind.alert),
            reverse("web:jobs") + "?" + urlencode({"status": "queued", "reason": code}),
        )
        for code, count in sorted(counts)
    ]


def _budgets() -> list[Alert]:
    names = [
        f"{view.project} / {view.user}" if view.user else view.project
        for view in current_budgets(timezone.now())
        if is_nearly_used(view)
    ]
    title = ngettext(
        "%(n)s budget is nearly used up", "%(n)s budgets are nearly used up", len(names)
    )
    return [_alert("budgets", "warn", "coin", names, title, reverse("web:limits") + "?near=1")]


def _duties() -> list[Alert]:
    """Duties that are rung or due but that no process does."""
    now = timezone.now()
    idle = Q(expires_at__isnull=True) | Q(expires_at__lt=now)
    due = Q(rung=True) | Q(name="sweep")
    late = TaskLease.objects.filter(idle, due, stamped_at__lt=now - OVERDUE_AFTER).order_by("name")
    names = [
        _("%(name)s, last run %(since)s ago")
        % {"name": duty.name, "since": duration((now - duty.stamped_at).total_seconds())}
        for duty in late
        if duty.stamped_at
    ]
    title = ngettext(
        "%(n)s background task is overdue", "%(n)s background tasks are overdue", len(names)
    )
    href = reverse("admin:duties_tasklease_changelist")
    return [_alert("duties", "bad", "alert", names, title, href)]


def _alert(key: str, cls: str, icon: str, names: list[str], title: str, href: str) -> Alert:
    count = len(names)
    return Alert(key, cls, icon, count, title % {"n": count}, href, tuple(names[:MAX_NAMES]))


def _nodes_url(state: str) -> str:
    return f"{reverse('web:node_list')}?state={state}"
