"""The project in the address of a page; 404 for whoever may not open it."""

from django.http import Http404

from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_admin, is_project_worker, projects_of


def project_or_404(user: User, slug: str) -> Project:
    """A project that the user may see; 404 does not tell a foreign project from an unknown one."""
    row = projects_of(user).filter(slug=slug).first()
    if row is None:
        raise Http404
    return row


def administered_project_or_404(user: User, slug: str) -> Project:
    """A project that the user administers; 404 for its other members."""
    row = project_or_404(user, slug)
    if not is_project_admin(user, row.pk):
        raise Http404
    return row


def working_project_or_404(user: User, slug: str) -> Project:
    """A project in which the user may have jobs; 404 for those who only look on."""
    row = project_or_404(user, slug)
    if not is_project_worker(user, row.pk):
        raise Http404
    return row
