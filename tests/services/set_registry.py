"""Gives a project, made if there is none, a member "alice" and a registry's credential: run as a
program beside a running stack. Arguments: project, address, user, password; the project alone sets
no credential."""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.accounts.models import Membership, Project, Role, User  # noqa: E402 - after setup
from portal.quotas.models import Quota  # noqa: E402
from portal.registries.services import registry_set  # noqa: E402


def main(slug: str, address: str = "", user: str = "", password: str = "") -> None:
    project, is_new = Project.objects.get_or_create(slug=slug, defaults={"name": slug})
    admin, _ = User.objects.get_or_create(username="ada")
    if is_new:
        people = ((User.objects.get(username="alice"), Role.MEMBER), (admin, Role.ADMIN))
        for person, role in people:
            Membership.objects.create(project=project, user=person, role=role)
        units = 8 * 56_000
        Quota.objects.create(project=project, limit_units=units, guard_units=units)
    if address:
        registry_set(actor=admin, project=project, address=address, user=user, password=password)
    print(slug)


if __name__ == "__main__":
    main(*sys.argv[1:])
