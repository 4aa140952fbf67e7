"""Filters of the console's pages."""

from django import template
from django.utils.translation import gettext as _

from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.accounts.models import User
from portal.submission import approvals as approving

register = template.Library()


@register.filter
def gpu_hours(unit_seconds: int) -> str:
    """What is used or may be, rounded up to hundredths."""
    return as_gpus(-(-unit_seconds // SECONDS_PER_HOUR))


@register.filter
def quota_word(name: str) -> str:
    """What the form calls a field of a quota."""
    words = {"limit": _("May hold"), "borrow": _("Borrows up to"), "lend": _("Lends up to")}
    return words.get(name, name)


@register.filter
def role_word(role: str) -> str:
    """What somebody is in a project."""
    words = {"viewer": _("viewer"), "member": _("member"), "admin": _("admin")}
    return words.get(role, role)


@register.filter
def decides(user: User) -> bool:
    """May approve what somebody asks for: the inbox is there for them."""
    return approving.decides(user)
