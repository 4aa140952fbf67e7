"""Template tags and filters of the console pages."""

from collections.abc import Iterable

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents.contract.units import as_gpus
from portal.accounts.models import User
from portal.quotas.limits import LimitEffect
from portal.submission import approvals as approving
from portal.web.templatetags.tessera import icon
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


@register.simple_tag
def limit_effects(effects: Iterable[LimitEffect]) -> SafeString:
    """What a job would do to each limit that it counts against, as a list. In Python, as the inbox
    of approvals has hundreds."""
    lines = (
        (" bad ink", icon("alert"), _effect_text(each))
        if each.is_exceeded
        else ("", "", _effect_text(each))
        for each in effects
    )
    line = '<li class="row tightrow{}">{}<span>{}</span></li>'
    items = format_html_join("", line, lines)
    return SafeString(f'<ul class="small">{items}</ul>')


def _effect_text(effect: LimitEffect) -> str:
    amount = gpu_hours if effect.is_budget else as_gpus
    words = {
        "user": effect.user,
        "held": amount(effect.before),
        "after": amount(effect.after),
        "limit": amount(effect.limit),
    }
    if effect.is_budget and effect.user:
        text = _("budget of %(user)s: %(held)s → %(after)s of %(limit)s GPU-hours")
    elif effect.is_budget:
        text = _("budget: %(held)s → %(after)s of %(limit)s GPU-hours")
    elif effect.user:
        text = _("quota of %(user)s: %(held)s → %(after)s of %(limit)s GPUs")
    else:
        text = _("quota: %(held)s → %(after)s of %(limit)s GPUs")
    return text % words
