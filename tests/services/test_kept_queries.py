"""A kept query gives what its query set gives, on PostgreSQL, with one text for any values."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from agents.contract.documents import SliceKind
from portal.database.kept_queries import LONGEST_LIST, KeptSelect, KeptUpdate, ListOf
from portal.inventory.models import Gpu, Node, Slice
from tests.support.rows import a_node

# What breaks a text that is put together by hand.
NAMES = ("plain", "it's", 'a "b" {c,d} \\', "NULL", "显卡", "%s %% {}")
GPU_FIELDS = (Node._meta.pk, ListOf(Gpu._meta.get_field("uuid")))


def gpus_of(node, uuids):
    return Gpu.objects.filter(node=node, uuid__in=uuids).select_related("node").order_by("uuid")


def test_models_and_values_are_those_of_the_query_set(postgres_django):
    node = a_node(gpus=4)
    other = Node.objects.create(name="other", labels={"a": [1, None]}, facts={"x": "it's"})
    uuids = sorted(Gpu.objects.values_list("uuid", flat=True))
    kept = KeptSelect(gpus_of, *GPU_FIELDS)
    plain = KeptSelect(
        lambda pk: Node.objects.filter(pk=pk).values_list("pk", "labels", "facts"), Node._meta.pk
    )
    for wanted in ([], uuids[:1], uuids[:3], uuids, ["none"], [*uuids, *"x" * LONGEST_LIST]):
        found = kept.rows(node.row.pk, wanted)
        assert found == list(gpus_of(node.row.pk, wanted))
        with CaptureQueriesContext(connection) as seen:
            assert all(gpu.node.name == node.row.name and not gpu._state.adding for gpu in found)
        assert not seen, "the node was read with its GPUs"
    assert kept.rows(other.pk, uuids) == []
    assert plain.rows(other.pk) == [(other.pk, {"a": [1, None]}, {"x": "it's"})]
    assert isinstance(plain.rows(node.row.pk)[0][0], UUID)


def test_the_text_is_the_same_for_three_values_and_for_four(postgres_django):
    node = a_node(gpus=4)
    uuids = list(Gpu.objects.values_list("uuid", flat=True))
    made = []

    def make(pk, keys):
        made.append(keys)
        return gpus_of(pk, keys)

    kept = KeptSelect(make, *GPU_FIELDS)
    for wanted in (uuids[:3], uuids, uuids[1:]):
        assert len(kept.rows(node.row.pk, wanted)) == len(wanted)
    assert len(made) == 1


@pytest.mark.parametrize("name", NAMES)
def test_values_are_never_part_of_the_text(postgres_django, name):
    Node.objects.create(name=name)
    Node.objects.create(name="n")
    kept = KeptSelect(
        lambda wanted: Node.objects.filter(name=wanted).values_list("name", flat=True),
        Node._meta.get_field("name"),
    )
    assert kept.rows(name) == [name]
    assert kept.rows(f"{name}' OR 'a'='a") == []


def test_rows_are_locked_within_a_transaction_only(postgres_django):
    node = a_node()
    kept = KeptSelect(lambda pk: Node.objects.filter(pk=pk).locking(), Node._meta.pk)
    for _ in range(2):
        with transaction.atomic(), CaptureQueriesContext(connection) as seen:
            assert kept.rows(node.row.pk) == [node.row]
        assert "FOR NO KEY UPDATE" in seen[0]["sql"]
        with pytest.raises(TransactionManagementError):
            kept.rows(node.row.pk)


def test_an_update_writes_the_rows_that_still_are_as_expected(postgres_django):
    a_node()
    gpu = Gpu.objects.get()
    rows = [
        Slice.objects.create(gpu=gpu, kind=SliceKind.GPU, start=n, memory_mib=1, units=1)
        for n in range(3)
    ]
    kept = KeptUpdate(
        lambda starts, size, busy: Slice.objects.filter(start__in=starts, size=size),
        lambda starts, size, busy: {"busy": busy},
        ListOf(Slice._meta.get_field("start")),
        Slice._meta.get_field("size"),
        Slice._meta.get_field("busy"),
    )
    assert kept.write([0, 1], 1, "it's %s") == 2
    assert kept.write([1, 2], 7, "no") == 0
    assert kept.write([2], 1, "b") == 1
    assert [Slice.objects.get(pk=row.pk).busy for row in rows] == ["it's %s", "it's %s", "b"]


def test_no_value_is_an_error_rather_than_no_row(postgres_django):
    kept = KeptSelect(gpus_of, *GPU_FIELDS)
    for values in ((None, ["a"]), (a_node().row.pk, ["a", None])):
        with pytest.raises(ValueError, match="NULL equals nothing"):
            kept.rows(*values)
