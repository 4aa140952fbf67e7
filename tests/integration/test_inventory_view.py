"""What can never run is judged by a view of the inventory that is never older than the rows."""

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.errors import Refused
from portal.inventory.models import Gpu
from portal.inventory.version import inventory_version, make_triggers
from portal.planning import inventory_view
from portal.planning.inventory_view import current_inventory
from portal.submission.limits import request_limits
from portal.submission.services import job_submit
from scheduler.core.request import parse_request
from tests.support.inventory_changes import COUNTED, UNCOUNTED
from tests.support.rows import a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def nodes():
    return a_node("n1", gpus=2).row, a_node("n2", gpus=2).row


def read_again():
    """A view that nothing was kept of."""
    kept = inventory_view._last[:]
    inventory_view.clear()
    view = current_inventory()
    inventory_view._last[:] = kept
    return view


def summary(view):
    capacity = view.capacity
    groups = [(node.fabric, many, len(node.gpus)) for node, many in capacity.nodes]
    return groups, capacity.nodes, [board.key for board in capacity.boards], view.host_nodes


@pytest.mark.parametrize("name", COUNTED)
def test_a_change_of_what_nodes_are_is_seen_at_once(name, nodes):
    before = current_inventory()
    COUNTED[name](*nodes)
    after = current_inventory()
    assert after.version > before.version
    assert summary(after) == summary(read_again())
    assert summary(after) != summary(before)


@pytest.mark.parametrize("name", UNCOUNTED)
def test_a_change_of_what_runs_there_reads_no_node(name, nodes):
    before = current_inventory()
    for node in nodes:
        node.refresh_from_db()
    UNCOUNTED[name](*nodes)
    with CaptureQueriesContext(connection) as seen:
        after = current_inventory()
    assert after is before
    assert len(seen) == 1
    assert summary(after) == summary(read_again())


def test_a_request_is_refused_from_the_moment_its_last_board_is_gone(nodes):
    alice = a_user("alice")
    vision = a_project("vision", alice)
    h200 = {"gpus": 1, "models": ["H200"]}
    a_job(alice, vision, device=h200)
    Gpu.objects.update(board="A100-80GB")
    with pytest.raises(Refused, match="impossible"):
        a_job(alice, vision, device=h200)
    Gpu.objects.filter(index=0).update(board="H200-141GB")
    assert a_job(alice, vision, device=h200).pk


def test_the_default_cpu_of_a_request_follows_a_taint_at_once(nodes):
    alice = a_user("alice")
    vision = a_project("vision", alice)
    first, _ = nodes
    type(first).objects.filter(pk=first.pk).update(cpu_milli=8_000)
    limits_before = a_job_with_defaults(alice, vision)
    type(first).objects.filter(pk=first.pk).update(taints=["dedicated=course"])
    assert (limits_before, a_job_with_defaults(alice, vision)) == (4_000, 32_000)


def a_job_with_defaults(user, project):
    body = a_request(project, device={"gpus": 1})
    del body["cpu"], body["memory"]
    return job_submit(user=user, request=parse_request(body, request_limits())).cpu_milli


def test_the_triggers_survive_a_migration_and_can_be_made_twice(nodes):
    make_triggers()
    call_command("migrate", verbosity=0)
    before = inventory_version()
    COUNTED["memory"](*nodes)
    assert inventory_version() == before + 1
