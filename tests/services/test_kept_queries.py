"""A kept query gives what its query set gives, on PostgreSQL, with one text for any values."""

from __future__ import annotations

import sys
from datetime import timedelta
from importlib import import_module
from uuid import UUID

import psycopg
import pytest
from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import Case, F, When
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.documents import SliceKind
from portal.allocations.models import Allocation
from portal.database import kept_queries
from portal.database.kept_queries import LONGEST_LIST, KeptSelect, KeptUpdate, ListOf
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Job
from portal.planning.planner_input import planner_input
from portal.quotas.models import Budget, PlannerPolicy
from portal.quotas.policy import current_policy
from scheduler.commit import notices
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

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


def test_an_update_gives_a_field_of_the_rows_that_it_wrote(postgres_django, monkeypatch):
    row, other = a_node("n1").row, a_node("n2").row
    Node.objects.filter(pk=row.pk).update(acked_seq=2**40)
    kept = KeptUpdate(
        lambda pk, name: Node.objects.filter(pk=pk, name=name),
        lambda pk, name: {"fabric": name},
        Node._meta.pk,
        Node._meta.get_field("name"),
        returning=Node._meta.get_field("acked_seq"),
    )
    for texts in (kept_queries.KEPT_ON, frozenset()):
        monkeypatch.setattr(kept_queries, "KEPT_ON", texts)
        Node.objects.update(fabric="")
        assert kept.write_and_read(row.pk, "n1") == [2**40]
        assert kept.write_and_read(other.pk, "n1") == []
        assert kept.write(other.pk, "n2") == 1
        assert list(Node.objects.order_by("name").values_list("fabric", flat=True)) == ["n1", "n2"]


def test_models_have_what_their_query_set_adds(postgres_django):
    node = Node.objects.create(name="n", facts={"a": [1]}, fabric="f")
    kept = KeptSelect(
        lambda pk, name: (
            Node.objects.filter(pk=pk)
            .only("name")
            .annotate(seen=Case(When(name__gt=name, then=F("facts"))), at=F("fabric"))
        ),
        Node._meta.pk,
        Node._meta.get_field("name"),
    )
    for name in ("m", "n"):
        (found,) = kept.rows(node.pk, name)
        (row,) = kept._make(node.pk, name)
        assert (
            (found.seen, found.at)
            == (row.seen, row.at)
            == ({"a": [1]} if name < "n" else None, "f")
        )
        assert found.get_deferred_fields() == row.get_deferred_fields()


def test_no_value_is_an_error_rather_than_no_row(postgres_django):
    kept = KeptSelect(gpus_of, *GPU_FIELDS)
    for values in ((None, ["a"]), (a_node().row.pk, ["a", None])):
        with pytest.raises(ValueError, match="NULL equals nothing"):
            kept.rows(*values)


def test_a_pass_reads_what_plain_queries_would_read(postgres_django, monkeypatch):
    alice, node = a_user("alice"), a_node(gpus=3)
    vision = a_project("vision", alice, a_user("bob"), gpus=8)
    now = timezone.now()
    day = timedelta(days=1)
    for owner in (alice, None):
        Budget.objects.create(
            project=vision,
            user=owner,
            limit_unit_seconds=10**12,
            starts_at=now - day,
            ends_at=now + day,
        )
    ended = a_job(alice, vision, device={"gpus": 1})
    settle(node)
    node.finish()
    settle(node)
    Allocation.objects.update(used_seconds=5)
    runs = a_job(alice, vision, device={"gpus": 1})
    settle(node)
    a_job(alice, vision, device={"gpus": 3}, after=[runs.label])
    plan_once()
    Job.objects.queued().update(reserved_at=now)
    later = now + timedelta(minutes=1)

    def read():
        return planner_input(now=later, policy=current_policy()), queued_reasons()

    found = read()
    assert (ended.pk, runs.pk) == tuple(Job.objects.order_by("pk").values_list("pk", flat=True)[:2])
    snapshot, _ = found
    assert [len(rows) for rows in (snapshot.jobs, snapshot.running, snapshot.budgets)] == [1, 1, 2]
    assert snapshot.jobs[0].after
    assert any(owner.used_units for owner in snapshot.owners)
    monkeypatch.setattr(kept_queries, "KEPT_ON", frozenset())
    assert read() == found


def queued_reasons():
    """What a pass compares its own reasons and reservations with."""
    return [
        notices._RESERVED.rows(),
        notices._PROMISED.rows([0]),
        notices._WRITTEN.rows(),
        notices._UNWRITTEN.rows(),
    ]


# By the kind of a field: what PostgreSQL must be able to compare with its column.
SAMPLES = {
    "UUIDField": UUID(int=7),
    "CharField": "it's",
    "TextField": "100 %",
    "DateTimeField": timezone.now(),
    "BooleanField": True,
    "JSONField": {"a": ["it's"]},
    "BinaryField": b"\0",
}


def sample(field):
    if isinstance(field, ListOf):
        return [sample(field.field)]
    while field.is_relation:
        field = field.target_field
    return SAMPLES.get(field.get_internal_type(), 7)


def kept_in_the_code(kind):
    """All of them, by the module that has them."""
    for name in (settings.ROOT_URLCONF, "portal.agentapi.endpoint", "scheduler.tasks"):
        import_module(name)
    found = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(("portal.", "scheduler.")):
            continue
        for value in vars(module).values():
            members = vars(value).values() if hasattr(value, "__dict__") else ()
            found |= {id(one): (name, one) for one in (value, *members) if isinstance(one, kind)}
    return sorted(found.values(), key=lambda pair: pair[0])


def prepared_statements():
    """Of this session: how many, and how often they were asked with a plan for any values."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), coalesce(sum(generic_plans), 0) FROM pg_prepared_statements"
        )
        return cursor.fetchone()


def test_every_kept_query_is_prepared_and_can_be_planned_for_any_values(postgres_django):
    selects, updates = kept_in_the_code(KeptSelect), kept_in_the_code(KeptUpdate)
    assert len(selects) > 50
    assert len(updates) > 3
    with connection.cursor() as cursor:
        cursor.execute("SET plan_cache_mode = force_generic_plan")
    texts = set()
    for module, kept in [*selects, *updates]:
        ask = kept.rows if isinstance(kept, KeptSelect) else kept.write
        values = [sample(field) for field in kept._fields]
        try:
            with transaction.atomic():
                ask(*values)
        except DatabaseError as error:
            pytest.fail(f"{module}: {error}")
        # Other tests of this process have made texts for longer lists.
        made = kept._made[kept._key(values)]
        texts.add(made.text.sql if isinstance(kept, KeptSelect) else made.sql)
    assert prepared_statements() == (len(texts), len(selects) + len(updates))


def test_a_statement_whose_column_got_another_type_is_prepared_again_in_a_new_session(
    postgres_django,
):
    """A migration beside processes that serve: the first call of each session fails."""
    PlannerPolicy.objects.update_or_create(pk=1, defaults={"protection_seconds": 7})
    kept = KeptSelect(
        lambda: PlannerPolicy.objects.values_list("protection_seconds", flat=True).order_by("pk")
    )
    assert kept.rows() == kept.rows() == [7]
    with psycopg.connect(postgres_django) as other:
        other.execute("ALTER TABLE quotas_plannerpolicy ALTER protection_seconds TYPE bigint")
    with pytest.raises(DatabaseError, match="cached plan must not change result type"):
        kept.rows()
    # As between two requests.
    connection.close_if_unusable_or_obsolete()
    assert kept.rows() == [7]


def test_a_session_that_was_lost_before_its_first_statement_fails_as_for_any_statement(
    postgres_django,
):
    """Callers are told to wait for the database, not that the portal failed."""
    connection.ensure_connection()
    connection.connection.close()
    kept = KeptSelect(lambda: PlannerPolicy.objects.values_list("pk", flat=True))
    with pytest.raises((OperationalError, InterfaceError)):
        kept.rows()
    connection.close_if_unusable_or_obsolete()
    assert list(PlannerPolicy.objects.values_list("pk", flat=True)) == kept.rows()
