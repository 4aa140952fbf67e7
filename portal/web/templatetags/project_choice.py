"""The choice of the project that pages are about, in the bar of every page."""

from typing import Any

from django import template
from django.http import HttpRequest
from django.template.context import Context

from portal.web import project_choice as choices

register = template.Library()


@register.inclusion_tag("web/project_switch.html", takes_context=True)
def project_switch(context: Context) -> dict[str, Any]:
    """Nothing for those who have no choice. One query, if the page has not made it."""
    request: HttpRequest = context["request"]
    return {
        "request": request,
        "projects": [each.project.slug for each in choices.project_choice(request).memberships],
        "shown": choices.shown_project(request),
    }


@register.simple_tag(takes_context=True)
def page_address(context: Context, route: str) -> str:
    """The address of a page; of a list, the chosen project's part of it."""
    return choices.page_address(route, choices.chosen_project(context["request"]))
