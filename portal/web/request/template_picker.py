"""The templates offered on the request page: one click fills in the form."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.selectors import usable_templates
from portal.web.request.quick_starts import QuickStart, notebook_starts, quick_starts

# Templates on the page, and in the result of a search by name.
MAX_SHOWN, MAX_FOUND = 6, 24
MAX_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """A template or a quick start."""

    title: str | Promise
    description: str | Promise
    owner: str
    """The project it belongs to; empty for a quick start."""
    query: str
    """Of the request page's address."""
    is_current: bool
    """The form was filled in from it."""


@dataclass(frozen=True, slots=True)
class TemplatePicker:
    choices: list[TemplateChoice]
    search: str
    has_more: bool
    notebooks: list[TemplateChoice]
    """Quick starts of notebooks; none in the result of a search."""

    @property
    def is_searchable(self) -> bool:
        return self.has_more or bool(self.search)


def template_picker(
    user: User, projects: Sequence[Project], query: Mapping[str, str]
) -> TemplatePicker:
    """`query` of the page's address: the chosen `project`, the `template` or `start` that the form
    was filled in from, and the name to `find`. One database query."""
    search = query.get("find", "").strip()[:MAX_NAME_LENGTH]
    project = next((p for p in projects if p.slug == query.get("project")), None)
    limit = MAX_FOUND if search else MAX_SHOWN
    columns = ("pk", "name", "description", "project__slug")
    rows = usable_templates(user, projects, project, search).values_list(*columns)
    kept = {"project": project.slug} if project else {}
    current = query.get("template", "")
    choices = [
        TemplateChoice(
            title=name,
            description=description,
            owner=slug or _("everybody"),
            query=urlencode({"template": pk, **kept}),
            is_current=current == str(pk),
        )
        for pk, name, description, slug in rows[: limit + 1]
    ]
    if len(choices) < MAX_SHOWN and not search:
        starts = quick_starts(settings.PLATFORM.image_allow)
        choices += _start_choices(starts, query, kept)[: MAX_SHOWN - len(choices)]
    notebooks = () if search else own_notebook_starts()
    return TemplatePicker(
        choices[:limit],
        search,
        has_more=len(choices) > limit,
        notebooks=_start_choices(notebooks, query, kept),
    )


def own_notebook_starts() -> tuple[QuickStart, ...]:
    """Those that this portal offers."""
    knobs = settings.PLATFORM
    return notebook_starts(knobs.image_allow, knobs.apps_domain)


def _start_choices(
    starts: Iterable[QuickStart], query: Mapping[str, str], kept: Mapping[str, Any]
) -> list[TemplateChoice]:
    return [
        TemplateChoice(
            title=start.title,
            description=start.description,
            owner="",
            query=urlencode({"start": start.key, **kept}),
            is_current=query.get("start") == start.key,
        )
        for start in starts
    ]
