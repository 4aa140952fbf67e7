"""The planner's policy in the rows: every option can be set, and reaches the planner."""

from dataclasses import fields, replace

import pytest
from django.test import Client
from django.utils.translation import override

from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.quotas.admin import POLICY_HELP, ProjectForm
from portal.quotas.models import PlannerPolicy
from portal.quotas.policy import INTERNAL_OPTIONS, POLICY_OPTIONS, current_policy, policy_set
from scheduler.core.model.policy import Policy
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db

NAMES = {field.name for field in fields(Policy)}
COLUMNS = {c.name for c in PlannerPolicy._meta.concrete_fields} - {"id", "version"}


def another(name):
    """A value of this option that is not the default."""
    value = getattr(Policy(), name)
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return next(word for word in type(value) if word is not value)
    return value + 1


def test_every_option_of_the_planner_is_a_column_or_is_named_as_internal():
    assert COLUMNS == NAMES - INTERNAL_OPTIONS


@pytest.mark.parametrize("name", sorted(NAMES - INTERNAL_OPTIONS))
def test_what_is_set_reaches_the_planner_and_its_audit_line(name):
    value = another(name)
    policy_set(actor="admin", **{name: value})
    assert current_policy() == replace(Policy(), **{name: value})
    line = AuditEntry.objects.get()
    assert (line.before, line.after) == ({name: getattr(Policy(), name)}, {name: value})


def test_every_option_has_a_field_with_help_in_the_console():
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    page = client.get("/admin/quotas/plannerpolicy/add/")
    shown = dict(page.context["adminform"].form.fields)
    del shown["read_version"]  # which version was read
    assert set(shown) == set(POLICY_OPTIONS) == set(POLICY_HELP)
    assert all(field.help_text for field in shown.values())


def test_the_help_in_the_console_is_there_in_chinese():
    helps = {*POLICY_HELP.values(), *ProjectForm.Meta.help_texts.values()}
    english = {str(text) for text in helps}
    with override("zh-hans"):
        assert english & {str(text) for text in helps} == set()


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_switch_is_true_or_false(value):
    with pytest.raises(Refused, match="warm must be true or false") as refused:
        policy_set(actor="admin", warm=value)
    assert (refused.value.code, refused.value.field) == ("policy_invalid", "warm")
