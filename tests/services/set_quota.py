"""Sets the quota of a project in GPUs: run as a program beside a running stack, "vision 1".

Prints the limit in units.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from agents.contract.units import UNITS_PER_GPU  # noqa: E402 - after setup
from portal.accounts.models import Project  # noqa: E402
from portal.quotas.services import quota_set  # noqa: E402


def main(project: str, gpus: str) -> None:
    units = int(float(gpus) * UNITS_PER_GPU)
    row = quota_set(project=Project.objects.get(slug=project), limit_units=units, actor="tests")
    print(json.dumps(row.limit_units))


if __name__ == "__main__":
    main(*sys.argv[1:])
