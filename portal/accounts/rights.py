"""Check rights: each function raises Refused(forbidden, 403) or returns None.

Whether a user may see a row at all is up to the selectors, whose refusal is 404.
"""

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_admin, projects_to_work_in
from portal.error_codes import ErrorCode
from portal.errors import Refused


def require_platform_admin(user: User) -> None:
    if not user.is_platform_admin:
        raise Refused(ErrorCode.FORBIDDEN, "Only platform admins may do this. Ask one of them")


def require_project_admin(user: User, project: Project) -> None:
    if not is_project_admin(user, project.pk):
        sentence = Message(
            "Only admins of %(project)s may do this. Ask one of them", project=project.slug
        )
        raise Refused(ErrorCode.FORBIDDEN, sentence)


def require_worker(user: User, project: Project) -> None:
    """Whoever may submit jobs in the project."""
    if not projects_to_work_in(user).filter(pk=project.pk).exists():
        sentence = Message(
            "You may not submit jobs in %(project)s, so you may not send files there either",
            project=project.slug,
        )
        raise Refused(ErrorCode.FORBIDDEN, sentence)
