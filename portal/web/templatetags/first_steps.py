"""What a page shows to somebody who is in no project."""

from typing import Any

from django import template

from portal.accounts.models import User
from portal.web.first_steps import first_steps, people_to_ask

register = template.Library()


@register.inclusion_tag("web/no_project.html")
def no_project(user: User) -> dict[str, Any]:
    steps = first_steps(user)
    return {"steps": steps, "people": [] if steps else people_to_ask()}
