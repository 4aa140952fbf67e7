"""Find jobs by number and by name, in a bounded time however many jobs there are."""

from django.db.models import QuerySet

from portal.accounts.models import User
from portal.jobs.models import Job
from portal.jobs.selectors import LABEL, jobs_visible_to

# Only among this many of the newest jobs a word may stand anywhere in the name: older ones are
# found by their number and by how their name begins, which an index knows.
NEWEST = 5_000


def jobs_matching(user: User, words: list[str], count: int) -> list[Job]:
    """Visible jobs with this number, then those whose name begins with the word or has all words,
    the newest first. Up to three queries."""
    visible = jobs_visible_to(user)
    found: dict[int, Job] = {}
    if len(words) == 1:
        number = LABEL.fullmatch(words[0])
        if number:
            found |= {job.pk: job for job in visible.filter(pk=int(number[1]))}
        found |= {job.pk: job for job in visible.filter(name__startswith=words[0])[:count]}
    if len(found) < count:
        found |= {job.pk: job for job in _newest_with(visible, words)[:count]}
    return list(found.values())[:count]


def newest_jobs_of(user: User, count: int) -> list[Job]:
    """The user's own newest jobs. One query."""
    return list(jobs_visible_to(user).filter(owner=user)[:count])


def _newest_with(visible: QuerySet[Job], words: list[str]) -> QuerySet[Job]:
    newest = visible.select_related(None).values("pk")[:NEWEST]
    rows = Job.objects.filter(pk__in=newest).select_related("project", "owner").order_by("-id")
    for word in words:
        rows = rows.filter(name__icontains=word)
    return rows
