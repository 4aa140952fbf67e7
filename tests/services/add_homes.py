"""Gives project vision the volume in which its notebooks have their homes, on the root of the name
that is its argument: run as a program beside a running stack. Prints the volume's name."""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.accounts.models import Project  # noqa: E402 - after setup
from portal.volumes.models import Volume  # noqa: E402


def main(root: str) -> None:
    volume = Volume.objects.create(name="homes", root=root)
    volume.projects.set(Project.objects.filter(slug="vision"))
    print(json.dumps(volume.name))


if __name__ == "__main__":
    main(*sys.argv[1:])
