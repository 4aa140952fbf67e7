"""Seeds a replica on a node that has said hello: run as a program, prints the tokens of the node
and of the owner of the job."""

import json
import os
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.utils import timezone  # noqa: E402

from portal.accounts.models import ApiToken, Membership, Role, TokenScope  # noqa: E402
from portal.inventory.credentials import digest_of, new_access_token  # noqa: E402
from portal.inventory.models import Node  # noqa: E402
from tests.support.replica_rows import a_replica  # noqa: E402


def main() -> None:
    node = Node(name="sender", epoch=1, token_expires_at=timezone.now() + timedelta(hours=1))
    token = new_access_token(node.pk)
    node.token_digest = digest_of(token)
    node.save()
    replica = a_replica(node)
    job = replica.attempt.job
    Membership.objects.create(project=job.project, user=job.owner, role=Role.MEMBER)
    _, own = ApiToken.objects.create(user=job.owner, name="tests", scope=TokenScope.READ)
    print(json.dumps({"node": token, "replica": str(replica.pk), "job": job.label, "token": own}))


if __name__ == "__main__":
    main()
