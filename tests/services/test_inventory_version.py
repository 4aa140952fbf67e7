"""The version of the inventory on PostgreSQL, whose triggers and JSON differ from SQLite's."""

import threading

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from portal.inventory.models import Node
from portal.inventory.version import inventory_version
from portal.planning.inventory_view import current_inventory
from tests.support.inventory_changes import COUNTED, UNCOUNTED
from tests.support.rows import a_node

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("postgres_django")]


def test_what_counts_and_what_does_not_on_postgresql():
    for number, change in enumerate(COUNTED.values()):
        nodes = [a_node(f"n{number}-{each}", gpus=2).row for each in (1, 2)]
        before = current_inventory()
        with transaction.atomic():
            change(*nodes)
            assert current_inventory().version > before.version
            transaction.set_rollback(True)
        assert inventory_version() == before.version
    nodes = [a_node(f"m{each}", gpus=2).row for each in (1, 2)]
    for node in nodes:
        node.refresh_from_db()
    before = current_inventory()
    for change in UNCOUNTED.values():
        change(*nodes)
    assert current_inventory() is before


def test_the_triggers_can_be_made_again_on_postgresql():
    call_command("migrate", verbosity=0)
    node = a_node("n1").row
    before = inventory_version()
    COUNTED["memory"](node, node)
    assert inventory_version() == before + 1


def test_a_change_that_commits_late_is_seen():
    """The version is a sum: of two nodes that change at once, the one that commits last counts."""
    first, second = a_node("n1").row, a_node("n2").row
    is_changed, may_commit = threading.Event(), threading.Event()

    def change_slowly() -> None:
        with transaction.atomic():
            Node.objects.filter(pk=first.pk).update(cpu_milli=1_000)
            is_changed.set()
            assert may_commit.wait(300)
        connection.close()

    thread = threading.Thread(target=change_slowly)
    thread.start()
    assert is_changed.wait(300)
    Node.objects.filter(pk=second.pk).update(cpu_milli=2_000)
    view = current_inventory()
    may_commit.set()
    thread.join()
    later = current_inventory()
    assert later.version == view.version + 1
    assert 1_000 in {node.cpu_milli for node in later.host_nodes}
