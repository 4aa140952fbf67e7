"""The console's reads and locks on PostgreSQL, whose JSON and row locks differ from SQLite's."""

import pytest

from portal.accounts.services import project_share_set
from portal.catalogue.services import template_save, template_update
from portal.inventory.boards import cluster_boards
from portal.inventory.models import Node
from portal.submission.approvals import approval_requests, approvals_decide, starts_if_approved
from portal.web.console.alerts import active_alerts
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("postgres_django")]


def test_what_the_console_reads_and_locks_works_on_postgresql():
    root, alice = a_user("root", is_superuser=True), a_user("alice")
    vision = a_project("vision", alice)
    project_share_set(project=vision, actor="root", approval_units=0)
    a_node("n1", gpus=2)
    blocked = a_node("n2").row
    Node.objects.filter(pk=blocked.pk).update(facts={"blocks": ["no toolkit"]})
    job = a_job(alice, vision)
    assert [board.key for board in cluster_boards()] == ["H200-141GB"]
    assert [need.key for need in active_alerts(root)] == ["blocked", "approvals"]
    assert approval_requests([job])[0].units == 16_000
    assert starts_if_approved([job])[job.pk].at_once
    (decided,) = approvals_decide(refs=[job.label], actor=root, approve=True, reason="")
    assert decided == (job.label, None)
    request = a_request(vision)
    for project, by in ((vision, alice), (None, root)):
        row = template_save(actor=by, project=project, name="T", request=request, limits=LIMITS)
        assert template_update(template=row, actor=by, name="U", limits=LIMITS).version == 2
