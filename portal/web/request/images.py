"""The images of the request form: which are allowed, in words, and which to suggest."""

from collections.abc import Collection, Iterable, Sequence

from django.utils.translation import gettext as _

from agents.contract.image_reference import ANY, is_image_allowed
from portal.accounts.models import Project
from portal.catalogue.models import ImageRule
from portal.catalogue.selectors import image_policy_of
from portal.jobs.selectors import RecentJob

MAX_SUGGESTIONS = 12


def allowed_images(project: Project | None, installation: Collection[str]) -> str:
    """In one sentence, for the project of the form."""
    listed = _listed(project)
    if project and listed is not None:
        words = {"project": project.slug, "images": _in_words(listed)}
        if not listed:
            return _("The list of %(project)s has no image yet.") % words
        return _("%(project)s may use %(images)s.") % words
    if not installation:
        return _("No image is allowed here. Ask an admin.")
    if ANY in installation:
        return _("Any image that the nodes can pull.")
    return _("Allowed here: %(images)s.") % {"images": _in_words(installation)}


def image_suggestions(
    recent: Iterable[RecentJob], project: Project | None, installation: Collection[str]
) -> list[str]:
    """Images by name of the project's list and of the installation's, then those of the user's
    latest jobs, as far as they are allowed."""
    listed = _listed(project)
    named = [image for image in (*(listed or ()), *installation) if not _is_pattern(image)]
    found = dict.fromkeys([*named, *(job.image for job in recent if job.image)])
    return [image for image in found if _is_allowed(image, listed, installation)][:MAX_SUGGESTIONS]


def _listed(project: Project | None) -> Sequence[str] | None:
    """The patterns of the project's list; None without a list."""
    policy = image_policy_of(project) if project else None
    return policy.patterns if policy and policy.rule == ImageRule.LISTED else None


def _is_allowed(image: str, listed: Sequence[str] | None, installation: Collection[str]) -> bool:
    if listed is not None and not is_image_allowed(image, listed):
        return False
    return is_image_allowed(image, installation)


def _is_pattern(image: str) -> bool:
    return "*" in image or "?" in image


def _in_words(patterns: Iterable[str]) -> str:
    parts = [_pattern_in_words(pattern) for pattern in patterns]
    if len(parts) < 2:
        return "".join(parts)
    words = {"first": ", ".join(parts[:-1]), "last": parts[-1]}
    return _("%(first)s or %(last)s") % words


def _pattern_in_words(pattern: str) -> str:
    """ "ghcr.io/team/*" as "every image of ghcr.io/team"."""
    if pattern == ANY:
        return _("any image")
    place, slash, last = pattern.rpartition("/")
    if slash and last in (ANY, "*:*") and not _is_pattern(place):
        return _("every image of %(place)s") % {"place": place}
    name, colon, tag = pattern.rpartition(":")
    if colon and tag == ANY and "/" not in tag and not _is_pattern(name):
        return _("%(image)s with any tag") % {"image": name}
    return pattern
