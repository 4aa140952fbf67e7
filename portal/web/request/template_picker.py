"""Templates to begin with on the request page: a click fills in the form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.selectors import templates_to_use
from portal.web.request.quick_starts import starts

# So many stand on the page; where there are more, one searches by name.
SHOWN, FOUND = 6, 24
LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Pick:
    """`query`: of the request page's address. `of_whom`: empty for a start that comes with the
    product."""

    title: str | Promise
    why: str | Promise
    of_whom: str
    query: str
    is_taken: bool


@dataclass(frozen=True, slots=True)
class Picker:
    picks: list[Pick]
    find: str
    has_more: bool

    @property
    def is_searchable(self) -> bool:
        return self.has_more or bool(self.find)


def picker(user: User, projects: Sequence[Project], given: Mapping[str, str]) -> Picker:
    """`given`: the address, with the `project` that is chosen, the `template` or the `start` that
    was taken, and what to `find`. One query."""
    find = given.get("find", "").strip()[:LONGEST_NAME]
    project = next((one for one in projects if one.slug == given.get("project")), None)
    most = FOUND if find else SHOWN
    columns = ("pk", "name", "description", "project__slug")
    rows = templates_to_use(user, projects, project, find).values_list(*columns)[: most + 1]
    kept = {"project": project.slug} if project else {}
    taken = given.get("template", "")
    picks = [
        Pick(
            title=name,
            why=description,
            of_whom=slug or _("everybody"),
            query=urlencode({"template": pk, **kept}),
            is_taken=taken == str(pk),
        )
        for pk, name, description, slug in rows
    ]
    if len(picks) < SHOWN and not find:
        picks += _starts(given, kept)[: SHOWN - len(picks)]
    return Picker(picks[:most], find, has_more=len(picks) > most)


def _starts(given: Mapping[str, str], kept: Mapping[str, Any]) -> list[Pick]:
    return [
        Pick(
            title=start.title,
            why=start.why,
            of_whom="",
            query=urlencode({"start": start.key, **kept}),
            is_taken=given.get("start") == start.key,
        )
        for start in starts(settings.PLATFORM.image_allow)
    ]
