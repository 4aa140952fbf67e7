"""What somebody without a project can do: a platform admin sets the portal up, others ask one."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.accounts.selectors import platform_admins
from portal.inventory.models import Node

MAX_NAMES = 4


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step to a first job, and the page where it is done."""

    title: str
    sentence: str
    href: str
    is_done: bool
    is_next: bool = False


def first_steps(user: User) -> list[FirstStep]:
    """For a platform admin, in order; empty for others. Two queries."""
    if not user.is_platform_admin:
        return []
    steps = (
        (
            _("Add a node"),
            _("One command to paste on the machine; the page follows it to its first heartbeat."),
            "web:node_add",
            Node.objects.active().exists(),
        ),
        (
            _("Create a project"),
            _("Quotas, members and jobs belong to a project."),
            "web:project_new",
            Project.objects.filter(archived=False).exists(),
        ),
        (
            _("Add members to a project"),
            _("Add yourself too if you want to request GPUs."),
            "web:projects",
            False,
        ),
    )
    shown, is_next = [], True
    for title, sentence, name, is_done in steps:
        shown.append(FirstStep(title, sentence, reverse(name), is_done, is_next and not is_done))
        is_next = is_next and is_done
    return shown


def people_to_ask() -> list[str]:
    """Names of platform admins, for those who need one. One query."""
    return list(platform_admins().values_list("username", flat=True)[:MAX_NAMES])
