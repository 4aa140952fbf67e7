"""A worker is killed right after the mail server took a mail: nothing is lost, and the mail that
comes again says that it is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.environment.django_sqlite import copy_migrated
from tests.services.stack import ROOT, environ
from tests.support.sinks import MailSink

pytestmark = [pytest.mark.services, pytest.mark.slow]
SEED = """
from django.utils import timezone
from portal.notices.collection import notices_collect
from scheduler.core.model.states import JobStatus
from tests.support.noticed import end
from tests.support.rows import a_job, a_node, a_project, a_user
notices_collect(timezone.now(), mails=True)
a_node("n1")
alice = a_user("alice", email="alice@example.org")
vision = a_project("vision", alice)
for _ in range(3):
    end(a_job(alice, vision), JobStatus.FAILED)
"""
# A round of the worker's task, as if so many seconds had passed.
ROUND = """
import sys
from datetime import timedelta
from django.utils import timezone
from portal.notices.collection import notices_collect
from tests.support.noticed import send
notices_collect(timezone.now(), mails=True)
send(timezone.now() + timedelta(seconds=int(sys.argv[1])))
"""
COUNT = """
import json
from portal.notices.models import Notice, NoticeMail
waiting = Notice.objects.filter(gathered_at=None).count()
print(json.dumps([Notice.objects.count(), waiting, [m.status for m in NoticeMail.objects.all()]]))
"""


class Portal:
    def __init__(self, var: Path, sink: MailSink) -> None:
        var.mkdir()
        copy_migrated(var / "tessera.sqlite3")
        self.env = environ(var) | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
            "TESSERA_EMAIL_URL": f"smtp://127.0.0.1:{sink.port}",
            "PYTHONPATH": str(ROOT),
        }

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", f"import django\ndjango.setup()\n{program}", *arguments],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, *arguments: str) -> str:
        process = self.start(program, *arguments)
        out, _ = process.communicate(timeout=400)
        assert process.returncode == 0
        return out


def test_a_kill_after_the_server_took_the_mail_loses_nothing_and_doubles_one_mail(tmp_path):
    taken, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        taken.set()
        go_on.wait(400)

    with MailSink(on_mail=hold) as sink:
        portal = Portal(tmp_path / "var", sink)
        portal.run(SEED)
        killed = portal.start(ROUND, "30")
        assert taken.wait(400)
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate(timeout=400)
        go_on.set()

        portal.run(ROUND, "0")  # claimed by the one that was killed: not due yet
        assert len(sink.mails) == 1
        portal.run(ROUND, "120")
        portal.run(ROUND, "600")
        assert sink.subjects == ["3 jobs failed"] * 2
        assert len({mail["Message-ID"] for mail in sink.mails}) == 1
        assert json.loads(portal.run(COUNT)) == [3, 0, ["delivered"]]
