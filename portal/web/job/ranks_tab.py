"""The Ranks tab of a gang: its ranks by node, their logs side by side, and which lag."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils import timezone

from portal.job_logs.reading import last_lines
from portal.job_logs.storage import LogRemoved, open_logs
from portal.jobs.models import Attempt, Job, Replica
from portal.ranks.selectors import GangRanks, Rank, gang_of, ranks_by_node
from portal.storage.errors import StoreError
from portal.web.logs.address import LogView
from portal.web.logs.cursor import Cursor
from portal.web.logs.lines import LogLine, log_line
from portal.web.wording.labels import NBSP
from portal.web.wording.messages import failure_text, message_text, refusal_text

# Ranks on one page; a larger gang has several.
MAX_PANELS = 16
PANEL_LINES = 100
# Of each log one page reads at most this much.
PANEL_BYTES = 32 * 1024
# Of more stragglers only the number is told; each is marked at its log.
MAX_SENTENCES = 8


@dataclass(frozen=True, slots=True)
class RankPanel:
    rank: Rank
    lines: Sequence[LogLine]
    address: str
    """The page of its log."""

    @property
    def activity(self) -> str:
        """Empty if it was not measured."""
        percent = self.rank.active_percent
        return "" if percent is None else f"{percent}{NBSP}%"


@dataclass(frozen=True, slots=True)
class NodePanels:
    name: str
    is_own_node: bool
    """Not of a site that keeps its nodes to itself."""
    panels: Sequence[RankPanel]


@dataclass(frozen=True, slots=True)
class JobRanks:
    """Without ranks before the job has an attempt."""

    nodes: Sequence[NodePanels] = ()
    metric: str = ""
    """Whose steps are compared."""
    failed_rank: int | None = None
    failure: str = ""
    """How the first rank failed."""
    failure_address: str = ""
    stragglers: Sequence[str] = ()
    omitted_stragglers: int = 0
    merged_address: str = ""
    """One log of all ranks."""
    previous: str = ""
    following: str = ""
    """The pages before and after; empty if there is none."""
    total: int = 0
    """Ranks of the gang."""
    cursor: Cursor = field(default_factory=Cursor)
    shown: Sequence[int] = ()
    """The ranks of a page that does not show all."""
    notice: str = ""
    """Why lines are missing here; empty if none are."""

    @property
    def panels(self) -> list[RankPanel]:
        return [panel for node in self.nodes for panel in node.panels]


def job_ranks(job: Job, attempt: Attempt | None, *, page: int, last_event: int) -> JobRanks:
    """One page of the last attempt's ranks, from 1, with the ends of their logs. `last_event`: the
    id of the newest audit event that the page shows. Five queries, four without metrics."""
    if attempt is None:
        return JobRanks(cursor=Cursor(last_event))
    gang = gang_of(job, attempt, timezone.now())
    pages = max(1, -(-len(gang.ranks) // MAX_PANELS))
    page = max(1, min(page, pages))
    shown = gang.ranks[(page - 1) * MAX_PANELS : page * MAX_PANELS]
    lines, offsets, notice = _read_ends([rank.replica for rank in shown])
    path = reverse("web:job_ranks", args=[job.label])
    return JobRanks(
        **_sentences(job, gang),
        nodes=_nodes(job, shown, lines),
        previous=f"{path}?page={page - 1}" if page > 1 else "",
        following=f"{path}?page={page + 1}" if page < pages else "",
        cursor=Cursor(last_event, attempt.number, offsets),
        shown=[rank.number for rank in shown] if pages > 1 else [],
        notice=notice,
    )


def rank_heads(job: Job, attempt: Attempt | None, ranks: Collection[int], notice: str) -> JobRanks:
    """The same without lines, which have events of their own. `ranks`: those that the page shows,
    none for all that fit on it."""
    if attempt is None:
        return JobRanks()
    gang = gang_of(job, attempt, timezone.now())
    shown = [rank for rank in gang.ranks if not ranks or rank.number in ranks][:MAX_PANELS]
    return JobRanks(**_sentences(job, gang), nodes=_nodes(job, shown, {}), notice=notice)


def _sentences(job: Job, gang: GangRanks) -> dict[str, Any]:
    view = LogView(reverse("web:job_logs", args=[job.label]))
    failure: dict[str, Any] = gang.attempt.first_failure or {}
    why = [message_text(message) for rank in gang.stragglers for message in rank.lags]
    failed = gang.first_failed_rank
    return {
        "metric": gang.metric,
        "failed_rank": failed,
        "failure": failure_text(failure) if failure else "",
        "failure_address": "" if failed is None else view.rank_address(failed),
        "stragglers": why[:MAX_SENTENCES],
        "omitted_stragglers": max(0, len(why) - MAX_SENTENCES),
        "merged_address": view.path,
        "total": len(gang.ranks),
    }


def _nodes(
    job: Job, ranks: Sequence[Rank], lines: Mapping[int, Sequence[LogLine]]
) -> list[NodePanels]:
    view = LogView(reverse("web:job_logs", args=[job.label]))
    return [
        NodePanels(
            name,
            own[0].replica.node_id is not None,
            [
                RankPanel(rank, lines.get(rank.number, ()), view.rank_address(rank.number))
                for rank in own
            ],
        )
        for name, own in ranks_by_node(ranks)
    ]


def _read_ends(
    replicas: Sequence[Replica],
) -> tuple[dict[int, list[LogLine]], dict[int, int], str]:
    """The last lines by rank, the offsets after them, and why lines are missing."""
    kept = [replica for replica in replicas if replica.log_removed_at is None]
    removed = [replica for replica in replicas if replica.log_removed_at is not None]
    notice = refusal_text(LogRemoved(removed[0])) if removed else ""
    try:
        open_logs(kept)
        chunks = {r.rank: last_lines(r, PANEL_LINES, PANEL_BYTES) for r in kept}
    except StoreError as error:
        return {}, {}, refusal_text(error)
    lines = {rank: [log_line(line) for line in chunk.lines] for rank, chunk in chunks.items()}
    return lines, {rank: chunk.end for rank, chunk in chunks.items()}, notice
