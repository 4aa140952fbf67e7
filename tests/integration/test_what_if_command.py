"""`manage.py what_if`: last week on another cluster, from the command line."""

import json
import signal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from portal.audit.models import AuditEntry
from portal.what_if.models import WhatIf, WhatIfStatus
from tests.support.recorded_weeks import a_recorded_week
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def week():
    return a_recorded_week(a_user("alice"))


def test_the_command_prints_baseline_beside_changed(week):
    out = StringIO()
    call_command("what_if", "--quota", "vision=1", "--nodes", "1:node-a", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "5 jobs; changed: vision may hold 1 GPUs, 1 more like node-a"
    (mean,) = (line for line in lines if line.startswith("mean wait of project vision"))
    assert mean.split()[-3:] == ["01:30:00", "00:30:00", "-01:00:00"]
    assert AuditEntry.objects.get(action="what_if").actor == "manage.py"


def test_the_command_prints_json_for_programs(week):
    out = StringIO()
    call_command(
        "what_if", "--days", "3", "--policy", "backfill=conservative", "--json", stdout=out
    )
    found = json.loads(out.getvalue())
    assert found["until"] - found["since"] == 3 * 86_400
    assert found["baseline"]["jobs"] == 5


@pytest.mark.parametrize(
    "words",
    [["--quota", "vision"], ["--without", "zz"], ["--days", "0"], ["--policy", "order=x"]],
    ids=["word", "node", "days", "policy"],
)
def test_bad_input_of_the_command_is_one_sentence_and_exit_code_2(week, words):
    with pytest.raises(CommandError) as refused:
        call_command("what_if", *words)
    assert refused.value.returncode == 2
    assert str(refused.value)


@pytest.fixture
def same_process(monkeypatch):
    """The command runs in the process of the tests, whose priority and handler stay."""
    monkeypatch.setattr("os.nice", lambda _: 0)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("same_process")
def test_the_command_answers_a_stored_question(week):
    root = a_user("root", is_superuser=True)
    row = WhatIf.objects.create(requester=root, days=7)
    call_command("what_if", "--waiting")
    assert WhatIf.objects.get(pk=row.pk).status == WhatIfStatus.DONE
