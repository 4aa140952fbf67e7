"""Sets options of the planner's policy: run as a program beside a running stack, "warm=true" each.

Prints the version of the policy.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.quotas.policy import policy_set  # noqa: E402 - after setup


def main(words: list[str]) -> None:
    options = {name: json.loads(value) for name, value in (word.split("=", 1) for word in words)}
    print(json.dumps(policy_set(actor="tests", **options).version))


if __name__ == "__main__":
    main(sys.argv[1:])
