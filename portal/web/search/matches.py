"""What a user finds: groups of matches, each with its address."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from portal import text
from portal.accounts.models import Membership, Role, User
from portal.accounts.selectors import projects_matching
from portal.inventory.selectors import nodes_matching
from portal.jobs.models import Job
from portal.jobs.search import jobs_matching, newest_jobs_of
from portal.web.search.pages import pages_for
from portal.web.wording.labels import BADGES, Badge, device_label

MAX_MATCHES = 8
MAX_LENGTH, MAX_WORDS = 100, 5


@dataclass(frozen=True, slots=True)
class Match:
    """One thing that was found."""

    title: str
    address: str
    note: str = ""
    badge: Badge | None = None


@dataclass(frozen=True, slots=True)
class MatchGroup:
    """The matches of one kind."""

    name: str
    """For the ids of a drawing's parts."""
    label: str
    matches: Sequence[Match]
    more: str = ""
    """The address of the page that lists all of them; empty if none does."""


def search_context(user: User, query: str) -> dict[str, Any]:
    """At most six queries. Without words: the user's newest jobs, and every page."""
    typed = text.single_line(query, MAX_LENGTH)
    words = typed.split()[:MAX_WORDS]
    groups = [group for group in _groups(user, words) if group.matches]
    return {
        "typed": typed,
        "groups": groups,
        "count": sum(len(group.matches) for group in groups),
    }


def _groups(user: User, words: list[str]) -> Iterable[MatchGroup]:
    if not words:
        own = newest_jobs_of(user, MAX_MATCHES // 2)
        yield MatchGroup("jobs", _("Your newest jobs"), [_job_match(job) for job in own])
        yield MatchGroup("pages", _("Portal pages"), _page_matches(user, words))
        return
    jobs = jobs_matching(user, words, MAX_MATCHES)
    more = f"{reverse('web:jobs')}?{urlencode({'name': ' '.join(words)})}"
    has_more = len(jobs) == MAX_MATCHES and len(words) == 1
    yield MatchGroup("jobs", _("Jobs"), [_job_match(job) for job in jobs], more if has_more else "")
    yield MatchGroup("pages", _("Portal pages"), _page_matches(user, words))
    projects = projects_matching(user, words)[:MAX_MATCHES]
    yield MatchGroup(
        "projects",
        _("Projects"),
        [
            Match(project.slug, reverse("web:project", args=[project.slug]), project.name)
            for project in projects
        ],
    )
    names = nodes_matching(words)[: MAX_MATCHES + 1]
    all_nodes = f"{reverse('web:cluster')}?{urlencode({'q': words[0]})}"
    yield MatchGroup(
        "nodes",
        _("Nodes"),
        [Match(name, reverse("web:cluster_node", args=[name])) for name in names[:MAX_MATCHES]],
        all_nodes if len(names) > MAX_MATCHES and len(words) == 1 else "",
    )


def _job_match(job: Job) -> Match:
    note = " · ".join((job.label, device_label(job), job.owner.username, job.project.slug))
    return Match(job.name, reverse("web:job", args=[job.label]), note, BADGES[job.status])


def _page_matches(user: User, words: list[str]) -> list[Match]:
    """One query."""
    admins = Membership.objects.filter(user=user, role=Role.ADMIN)
    pages = pages_for(is_project_admin=admins.exists(), is_platform_admin=user.is_platform_admin)
    return [Match(str(page.label), page.address) for page in pages if page.matches(words)]
