"""The tab with a terminal: in which replica, or why there is none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from agents.contract.terminal import END_SENTENCES
from agents.contract.tunnel import REFUSAL_SENTENCES
from portal.accounts.models import User
from portal.jobs.models import Job, Replica
from portal.jobs.owner_access import has_terminals
from portal.jobs.selectors import is_working_owner
from scheduler.core.model.states import ReplicaStatus

# Ranks that the page offers by name; others by their number in the address.
MAX_RANKS = 256


@dataclass(frozen=True, slots=True)
class TerminalTab:
    """Whether the reader may have one now, and where."""

    is_owner: bool
    is_on: bool
    rank: int
    ranks: tuple[int, ...]
    """Those that run."""
    sentences: str
    """What the page may have to say, as JSON: by codes of ends and refusals, and of the page."""

    @property
    def is_possible(self) -> bool:
        return self.is_owner and self.is_on and self.rank in self.ranks


def job_terminal(user: User, job: Job, replicas: Sequence[Replica], rank: int) -> TerminalTab:
    running = [row.rank for row in replicas if row.status == ReplicaStatus.RUNNING]
    return TerminalTab(
        is_owner=is_working_owner(user, job),
        is_on=has_terminals(job),
        rank=rank,
        ranks=tuple(sorted(running)[:MAX_RANKS]),
        sentences=json.dumps(_sentences(), ensure_ascii=False),
    )


def _sentences() -> dict[str, str]:
    refusals = {str(code): _(sentence) for code, sentence in REFUSAL_SENTENCES.items()}
    ends = {str(code): _(sentence) for code, sentence in END_SENTENCES.items()}
    return (
        refusals
        | ends
        | {
            "ready": _("A shell in the job, as its user and with its secrets"),
            "connecting": _("Connecting"),
            "open": _("Connected. Shift+F6 leaves the terminal with the keyboard"),
            "cut": _("The connection was cut. Connecting again"),
            "lost": _("The portal did not answer in time, and the terminal has ended"),
            "denied": _("You may not use this terminal any more"),
            "unreachable": _("The terminal could not be opened. Reload the page, which says why"),
            "input": _("Terminal input"),
        }
    )
