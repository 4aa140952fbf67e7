"""A project's month goes to its admins, in their language, once, and only where mail is set up."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from io import StringIO

import pytest
from django.core import mail as outbox
from django.core.mail.backends.locmem import EmailBackend
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.accounts.models import Role
from portal.inventory.models import Gpu
from portal.usage.models import MonthlyReport
from portal.usage.services import reports_due, reports_send
from portal.usage.tasks import monthly_report
from portal.usage.window import midnight
from tests.support.held_time import lease
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
OCTOBER = date(2026, 10, 1)
NOW = datetime(2026, 11, 2, 8, tzinfo=timezone.get_default_timezone())
SENDER = "tessera@example.org"


@pytest.fixture
def boss():
    return a_user("bo", email="bo@example.org")


@pytest.fixture
def vision(boss):
    """A project that used 3 h of a GPU in October, and one more hour on the other side of it."""
    home = a_project("vision", boss, role=Role.ADMIN)
    a_node("n1")
    gpu = Gpu.objects.select_related("node").get()
    november = midnight(date(2026, 11, 1))
    begin, end = november - timedelta(hours=3), november + timedelta(hours=1)
    lease(a_job(boss, home), gpu, begin, end)
    return home


class Refusing(EmailBackend):
    """A mail server that is not there."""

    def send_messages(self, messages):
        raise ConnectionRefusedError


class Silent(EmailBackend):
    """One that takes the mail and then goes away before it says so."""

    def send_messages(self, messages):
        super().send_messages(messages)
        raise TimeoutError


def send() -> int:
    return len(reports_send(month=OCTOBER, sender=SENDER, now=NOW))


def test_an_admin_gets_the_months_figures_as_text_and_html(vision):
    assert send() == 1
    (message,) = outbox.outbox
    assert message.to == ["bo@example.org"]
    assert message.subject == "vision used 3.00 GPU-hours in 2026-10"
    assert "bo: 3.00 (100 %)" in message.body
    assert "604800000 unit-seconds" in message.body
    ((html, kind),) = message.alternatives
    assert kind == "text/html"
    assert '<td align="right">3.00</td>' in html
    assert "style=" not in html and "<script" not in html


def test_a_reader_of_chinese_gets_chinese(vision, boss):
    boss.language = "zh-hans"
    boss.save()
    send()
    assert outbox.outbox[0].subject == "vision 在 2026-10 用了 3.00 GPU 时"


def test_nobody_gets_a_month_twice(vision):
    assert (send(), send()) == (1, 0)
    assert len(outbox.outbox) == 1


def test_a_mail_of_which_nobody_knows_whether_it_left_is_not_sent_again(vision, settings):
    settings.EMAIL_BACKEND = f"{__name__}.Silent"
    assert send() == 0
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert send() == 0
    assert len(outbox.outbox) == 1
    assert MonthlyReport.objects.get().sent_at is None


def test_a_mail_that_certainly_did_not_leave_is_tried_again(vision, settings):
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    assert send() == 0
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert send() == 1


def test_only_active_admins_with_an_address_of_projects_that_used_something_are_written_to(
    vision,
):
    member, gone, silent = a_user("m", email="m@x"), a_user("g", email="g@x"), a_user("s")
    gone.is_active = False
    gone.save()
    vision.memberships.create(user=member, role=Role.MEMBER)
    for person in (gone, silent):
        vision.memberships.create(user=person, role=Role.ADMIN)
    a_project("idle", a_user("i", email="i@x"), role=Role.ADMIN)
    due = reports_due(month=OCTOBER, now=NOW)
    assert [(p.slug, u.username) for p, u in due] == [("vision", "bo")]


def test_a_month_that_is_not_over_is_not_reported(vision):
    assert reports_send(month=date(2026, 11, 1), sender=SENDER, now=NOW) == []
    just_over = midnight(date(2026, 11, 1)) + timedelta(minutes=5)
    assert reports_send(month=OCTOBER, sender=SENDER, now=just_over) == []


def test_without_mail_the_duty_does_nothing(vision, settings):
    assert settings.MAIL_IS_SET is False
    assert monthly_report() is False
    assert outbox.outbox == []


def test_with_mail_the_duty_sends_what_is_due(vision, settings, monkeypatch):
    settings.MAIL_IS_SET = True
    monkeypatch.setattr("portal.usage.tasks.previous_month", lambda today: OCTOBER)
    monkeypatch.setattr("portal.usage.tasks.timezone.now", lambda: NOW)
    assert monthly_report() is True
    assert len(outbox.outbox) == 1


def test_the_command_prints_and_refuses_what_makes_no_sense(vision):
    out = StringIO()
    call_command("usage_report", month="2026-10", project="vision", stdout=out)
    assert "vision used 3.00 GPU-hours in 2026-10" in out.getvalue()
    assert outbox.outbox == []
    for options in ({"month": "2026-13"}, {"project": "none"}, {"send": True}):
        with pytest.raises(CommandError):
            call_command("usage_report", stdout=out, **options)


def test_what_people_are_called_is_no_markup_in_the_mail(vision, boss):
    boss.first_name = "<img src=x>"
    boss.save()
    send()
    html = outbox.outbox[0].alternatives[0][0]
    assert "<img" not in html and "&lt;img" in html
