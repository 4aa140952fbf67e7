"""Behind PgBouncer in transaction mode a session is worth nothing: what needs more than one
transaction has settings of its own. Locks of workers are in test_lease_death.py."""

from urllib.parse import urlsplit

import environ
import pytest
from django.db import ProgrammingError, connections, transaction

from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.audit.services import audit_record
from portal.database.kept_queries import KeptSelect
from portal.settings.servers import postgres_settings
from tests.environment.django_postgres import use_database

pytestmark = pytest.mark.services

ROWS = 7


@pytest.fixture
def through_pooler(postgres_django, pooled):
    """Points Django at PgBouncer; `direct_url` as in the portal's settings."""
    direct = connections.settings["default"]
    server = urlsplit(postgres_django).port
    pooler = environ.Env.db_url_config(postgres_django.replace(f":{server}/", f":{pooled}/"))

    def point(direct_url: str) -> None:
        own = postgres_settings(pooler, direct_url=direct_url, agent_connections=0)
        use_database(direct | own | {"OPTIONS": own["OPTIONS"] | {"pool": False}})

    try:
        yield point
    finally:
        use_database(direct)


def read_in_parts() -> int:
    return sum(1 for _ in AuditEntry.objects.order_by("pk").iterator(chunk_size=2))


def test_a_long_list_is_read_past_the_pooler_only_with_its_setting(through_pooler, postgres_django):
    """The export of the audit trail, say, which reads outside of transactions."""
    for number in range(ROWS):
        audit_record(actor="root", action=AuditAction.BUDGET_ADD, noun="budget", noun_id=number)
    through_pooler(direct_url="")
    with pytest.raises(ProgrammingError, match="does not exist"):
        read_in_parts()
    through_pooler(direct_url=postgres_django)
    assert read_in_parts() == ROWS


def test_transactions_and_time_zones_are_as_without_a_pooler(through_pooler, postgres_django):
    through_pooler(direct_url=postgres_django)
    with transaction.atomic():
        entry = audit_record(actor="a", action=AuditAction.BUDGET_ADD, noun="budget", noun_id=1)
        assert AuditEntry.objects.select_for_update().get(pk=entry.pk).at == entry.at
    assert AuditEntry.objects.get(pk=entry.pk).at == entry.at
    with connections["default"].cursor() as cursor:
        for _ in range(10):
            cursor.execute("SELECT pk FROM (SELECT 1 AS pk) AS one WHERE pk = %s", [1])
            cursor.execute("SHOW TimeZone")
            assert cursor.fetchone() == ("UTC",)


def test_kept_queries_are_prepared_past_the_pooler_only(through_pooler, postgres_django):
    """Behind it, the next transaction would look for them in another session."""
    kept = KeptSelect(
        lambda actor: AuditEntry.objects.filter(actor=actor), AuditEntry._meta.get_field("actor")
    )

    def statements() -> tuple[int]:
        with transaction.atomic(), connections["default"].cursor() as cursor:
            assert [kept.rows("nobody") for _ in range(3)] == [[]] * 3
            cursor.execute("SELECT count(*) FROM pg_prepared_statements")
            return cursor.fetchone()

    assert statements() == (1,)
    for direct_url in (postgres_django, ""):
        through_pooler(direct_url=direct_url)
        assert statements() == (0,)
