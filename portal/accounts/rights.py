"""Rights as refusals: each function returns quietly or raises Refused(forbidden, 403).

Whether a row may be *seen* at all is a matter of selectors, and its answer is 404.
"""

from agents.contract.phrase import Phrase
from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_admin
from portal.errors import Refused


def require_platform_admin(user: User) -> None:
    if not user.is_platform_admin:
        raise Refused("forbidden", "Only a platform admin may do this. Ask one", "", 403)


def require_project_admin(user: User, project: Project) -> None:
    if not is_project_admin(user, project.pk):
        sentence = Phrase("Only an admin of %(project)s may do this. Ask one", project=project.slug)
        raise Refused("forbidden", sentence, "", 403)
