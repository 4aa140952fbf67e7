"""The volume in which the notebooks of a project have their homes: a folder for each person.

It is the volume `homes-<project>`, or else `homes`, if the project may write to one of these names.
"""

from portal.volumes.models import Volume

SHARED_NAME = "homes"


def home_volume_names(project: str) -> tuple[str, str]:
    """Which volumes may be it, the first one that exists counts. `project`: its slug."""
    return f"{SHARED_NAME}-{project}", SHARED_NAME


def home_volume(project: str) -> str:
    """Its name; empty if the project has none. One query."""
    names = home_volume_names(project)
    rows = Volume.objects.filter(projects__slug=project, name__in=names, read_only=False)
    found = set(rows.values_list("name", flat=True))
    return next((name for name in names if name in found), "")
