"""A job's reason as one user may read it: names of foreign projects become a count."""

from collections.abc import Mapping
from typing import Any

from portal.accounts.models import Membership, User

# Evidence that names projects, each with its units.
NAMES_PROJECTS = "borrowed_by"


def visible_projects(user: User) -> frozenset[str] | None:
    """The projects whose names the user may read; None for all."""
    if user.is_platform_admin:
        return None
    return frozenset(Membership.objects.filter(user=user).values_list("project__slug", flat=True))


def visible_reason(
    reason: Mapping[str, Any] | None, projects: frozenset[str] | None
) -> dict[str, Any] | None:
    """The reason object for a reader who may see these projects (see `visible_projects`)."""
    if reason is None:
        return None
    evidence = reason.get("evidence", {})
    if projects is None or NAMES_PROJECTS not in evidence:
        return dict(reason)
    return dict(reason) | {"evidence": _visible_evidence(evidence, projects)}


def _visible_evidence(evidence: Mapping[str, Any], projects: frozenset[str]) -> dict[str, Any]:
    """`borrowed_by` keeps the reader's own projects; the others become a count and a sum."""
    units = evidence[NAMES_PROJECTS]
    own = {name: borrowed for name, borrowed in units.items() if name in projects}
    others = [borrowed for name, borrowed in units.items() if name not in projects]
    visible: dict[str, Any] = {}
    for name, value in evidence.items():
        if name != NAMES_PROJECTS:
            visible[name] = value
        elif own:
            visible[name] = own
    if others:
        visible |= {"borrowing_projects": len(others), "borrowed_by_others_units": sum(others)}
    return visible
