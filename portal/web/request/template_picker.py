"""Templates to begin with on the request page: a click fills in the form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.selectors import usable_templates
from portal.web.request.quick_starts import quick_starts

# So many stand on the page; where there are more, one searches by name.
MAX_SHOWN, MAX_FOUND = 6, 24
MAX_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """`query`: of the request page's address. `of_whom`: empty for a start that comes with the
    product."""

    title: str | Promise
    description: str | Promise
    owner: str
    query: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class TemplatePicker:
    choices: list[TemplateChoice]
    search: str
    has_more: bool

    @property
    def is_searchable(self) -> bool:
        return self.has_more or bool(self.search)


def template_picker(
    user: User, projects: Sequence[Project], query: Mapping[str, str]
) -> TemplatePicker:
    """`given`: the address, with the `project` that is chosen, the `template` or the `start` that
    was taken, and what to `find`. One query."""
    find = query.get("find", "").strip()[:MAX_NAME_LENGTH]
    project = next((one for one in projects if one.slug == query.get("project")), None)
    most = MAX_FOUND if find else MAX_SHOWN
    columns = ("pk", "name", "description", "project__slug")
    rows = usable_templates(user, projects, project, find).values_list(*columns)[: most + 1]
    kept = {"project": project.slug} if project else {}
    taken = query.get("template", "")
    picks = [
        TemplateChoice(
            title=name,
            description=description,
            owner=slug or _("everybody"),
            query=urlencode({"template": pk, **kept}),
            is_current=taken == str(pk),
        )
        for pk, name, description, slug in rows
    ]
    if len(picks) < MAX_SHOWN and not find:
        picks += _starts(query, kept)[: MAX_SHOWN - len(picks)]
    return TemplatePicker(picks[:most], find, has_more=len(picks) > most)


def _starts(given: Mapping[str, str], kept: Mapping[str, Any]) -> list[TemplateChoice]:
    return [
        TemplateChoice(
            title=start.title,
            description=start.description,
            owner="",
            query=urlencode({"start": start.key, **kept}),
            is_current=given.get("start") == start.key,
        )
        for start in quick_starts(settings.PLATFORM.image_allow)
    ]
