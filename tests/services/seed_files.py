"""Seeds a replica on a node that has said hello: run as a program, prints the tokens of the node
and of the owner of the job."""

import json
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.accounts.models import ApiToken, Membership, Role, TokenScope  # noqa: E402
from tests.support.node_tokens import a_greeted_node  # noqa: E402
from tests.support.replica_rows import a_replica  # noqa: E402


def main() -> None:
    node, token = a_greeted_node("sender")
    replica = a_replica(node)
    job = replica.attempt.job
    Membership.objects.create(project=job.project, user=job.owner, role=Role.MEMBER)
    _, own = ApiToken.objects.create(user=job.owner, name="tests", scope=TokenScope.READ)
    print(json.dumps({"node": token, "replica": str(replica.pk), "job": job.label, "token": own}))


if __name__ == "__main__":
    main()
