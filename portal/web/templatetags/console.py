"""Template filters of the console pages."""

from django import template
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.submission import approvals as approving
from portal.web.wording.labels import gpu_hours

register = template.Library()

register.filter(gpu_hours)


@register.filter
def quota_label(name: str) -> str:
    """The form's label of a quota field."""
    words = {"limit": _("Limit"), "borrow": _("May borrow"), "lend": _("May lend")}
    return words.get(name, name)


@register.filter
def role_label(role: str) -> str:
    """A project role, for people."""
    words = {"viewer": _("viewer"), "member": _("member"), "admin": _("admin")}
    return words.get(role, role)


@register.filter
def can_approve(user: User) -> bool:
    """Whether the user may decide approvals, and so sees the inbox."""
    return approving.may_decide_approvals(user)
