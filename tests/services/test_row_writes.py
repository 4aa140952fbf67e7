"""Rows written by one statement on PostgreSQL are those that Django would write one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.contract.documents import SliceKind
from portal.audit.models import Event
from portal.database.row_writes import rows_add, rows_insert, rows_update
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from scheduler.core.model.states import SliceStatus
from tests.support.examples import seeds
from tests.support.rows import a_node

# What breaks a text that is put together by hand.
TEXTS = ("", "plain", "it's", 'a "b" {c,d} \\ \n', "NULL", "显卡", "%s %% {}")
JSON = (None, {}, [], {"a": [1, None, "it's", {"b": 'c"'}]}, "text", 0, [[1], [2, 3]])
TIMES = (None, datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
NODE_COLUMNS = ("fabric", "desired", "labels", "restored_at", "drive_due", "disk_mib", "revision")


def change(node: Node, random: Random) -> None:
    node.fabric, node.desired = random.choice(TEXTS), random.choice(JSON[1:])
    node.labels, node.restored_at = random.choice(JSON[1:]), random.choice(TIMES)
    node.drive_due, node.revision = random.random() < 0.5, random.randrange(2**60)
    node.disk_mib, node.event_level = random.choice([None, 7]), random.choice([None, 0.1, 2e9])


def stored() -> list[tuple[object, ...]]:
    return list(Node.objects.order_by("pk").values_list(*NODE_COLUMNS, "event_level"))


@pytest.mark.parametrize("seed", seeds(20))
def test_rows_become_what_saving_each_would_make_of_them(postgres_django, seed):
    random = Random(seed)
    nodes = [Node.objects.create(name=f"n{number}") for number in range(random.randint(1, 6))]
    untouched = Node.objects.create(name="untouched")
    for node in nodes:
        change(node, random)
    with transaction.atomic():
        for node in nodes:
            node.save()
        one_by_one = stored()
        transaction.set_rollback(True)
    with CaptureQueriesContext(connection) as seen:
        assert rows_update(Node, nodes, (*NODE_COLUMNS, "event_level")) == len(nodes)
    assert len(seen) == 1
    assert stored() == one_by_one
    untouched.refresh_from_db()
    assert untouched.fabric == ""


def test_a_row_in_another_status_is_left_out_and_not_counted(postgres_django):
    a_node()
    gpu = Gpu.objects.get()
    rows = [
        Slice(gpu=gpu, kind=SliceKind.MIG, profile="1g.18gb", start=start, memory_mib=1, units=1)
        for start in range(3)
    ]
    Slice.objects.bulk_create(rows)
    Slice.objects.filter(pk=rows[1].pk).update(status=SliceStatus.FAILED)
    for row in rows:
        row.status, row.device_uuid = SliceStatus.READY, f"MIG-{row.start}"
    names = ["status", "device_uuid"]
    assert rows_update(Slice, rows, names, status=SliceStatus.PLANNED) == 2
    found = Slice.objects.order_by("start").values_list("status", "device_uuid")
    assert list(found) == [("ready", "MIG-0"), ("failed", ""), ("ready", "MIG-2")]


def test_a_value_that_is_too_long_is_refused_and_not_cut_off(postgres_django):
    node = Node.objects.create(name="n")
    node.fabric = "f" * 129
    with pytest.raises(DataError):
        rows_update(Node, [node], ["fabric"])


def test_constraints_hold(postgres_django):
    a_node()
    gpu = Gpu.objects.get()
    gpu.shared_threads = 101
    with pytest.raises(IntegrityError):
        rows_update(Gpu, [gpu], ["shared_threads"])


@pytest.mark.parametrize("seed", seeds(10))
def test_events_are_inserted_as_django_would(postgres_django, seed):
    random, node = Random(seed), Node.objects.create(name="n")
    columns = [field.name for field in Event._meta.concrete_fields if field.name != "id"]

    def events() -> list[Event]:
        random.seed(seed)
        return [
            Event(
                at=TIMES[1],
                noun="slice",
                noun_id=str(number),
                old=random.choice(["", SliceStatus.PLANNED]),
                new=random.choice(["", SliceStatus.READY]),
                sentence=random.choice(TEXTS),
                data=random.choice(JSON[1:]),
                node=random.choice([None, node]),
            )
            for number in range(random.randint(1, 5))
        ]

    Event.objects.all().delete()
    with transaction.atomic():
        Event.objects.bulk_create(events())
        one_way = list(Event.objects.order_by("pk").values_list(*columns))
        transaction.set_rollback(True)
    newest = rows_insert(Event, events())
    assert newest == Event.objects.latest("pk").pk
    assert list(Event.objects.order_by("pk").values_list(*columns)) == one_way


@pytest.mark.parametrize("count", [1, 3])
def test_rows_with_keys_of_their_own_are_added_as_django_would(postgres_django, count):
    a_node()
    gpu = Gpu.objects.get()
    columns = [f.name for f in Slice._meta.concrete_fields if f.name not in ("id", "created_at")]

    def slices() -> list[Slice]:
        return [
            Slice(gpu=gpu, kind=SliceKind.MIG, profile=TEXTS[2], start=start, memory_mib=1, units=1)
            for start in range(count)
        ]

    with transaction.atomic():
        Slice.objects.bulk_create(slices())
        one_way = list(Slice.objects.order_by("start").values_list(*columns))
        transaction.set_rollback(True)
    rows = slices()
    rows_add(Slice, rows)
    rows_add(SlotClaim, [SlotClaim(gpu=gpu, slot=row.start, slice=row) for row in rows])
    assert list(Slice.objects.order_by("start").values_list(*columns)) == one_way
    assert [row.pk for row in Slice.objects.order_by("start")] == [row.pk for row in rows]
    rows[0].start = 6
    rows[0].save()
    assert Slice.objects.count() == SlotClaim.objects.count() == count
    with pytest.raises(IntegrityError):
        rows_add(SlotClaim, [SlotClaim(gpu=gpu, slot=0, slice=rows[0])])


def test_nothing_is_asked_of_the_database_for_no_rows(postgres_django):
    with CaptureQueriesContext(connection) as seen:
        assert rows_update(Node, [], ["fabric"]) == 0
        assert rows_insert(Event, []) == 0
        rows_add(Slice, [])
    assert not seen.captured_queries
