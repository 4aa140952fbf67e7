"""Somebody who reads Chinese is told in Chinese what was refused, what happened and what failed."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from portal.accounts.models import Membership, Role
from portal.accounts.services import project_share_set
from portal.jobs.holds import job_hold, job_release
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db

TOLD = re.compile(r'<(p|div) class="(?:[^"]* )?(?:error|note bad)[^"]*"[^>]*>(.*?)</\1>', re.S)
# Three English words in a row: names of fields, models and programs stay as they are.
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", re.I)
CHINESE = re.compile("[\u4e00-\u9fff]")
RIGHT = {
    "project": "vision",
    "name": "probe",
    "image": "registry/pytorch:2.7",
    "command": "python train.py",
    "amount": "gpus",
    "gpus": "1",
    "replicas": "1",
    "time_limit": "30m",
    "topology": "best",
    "launcher": "none",
    "priority": "normal",
    "env": "",
    "key": "once",
}
WRONG = [
    {"project": "biology"},
    {"name": "nine lives"},
    {"name": ""},
    {"image": "x@y"},
    {"command": ""},
    {"command": "python 'unclosed"},
    {"gpus": "0"},
    {"gpus": "many"},
    {"amount": "memory", "device_memory": "12 parsecs"},
    {"amount": "mps", "threads": "0", "share_memory": "none"},
    {"replicas": "1000"},
    {"time_limit": "soon"},
    {"time_limit": "1000d"},
    {"topology": "nearby"},
    {"priority": "highest"},
    {"launcher": "rocket"},
    {"cpu": "a few"},
    {"memory": "0GiB"},
    {"memory": "1MiB"},
    {"disk": "lots"},
    {"env": "NO VALUE"},
    {"env": "TESSERA_RANK=1"},
    {"begin_at": "some day"},
    {"begin_at": "2126-01-31T18:00:00"},
    {"after": "the other one"},
    {"after": "J-99999"},
    {"needs": "a label with spaces!"},
    {"processes": "4"},
    {"backend": "nccl", "amount": "2g.35gb", "replicas": "2"},
]


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def node():
    return a_node("n1")


@pytest.fixture
def team(olga, node):
    return a_project("vision", olga)


@pytest.fixture
def page(olga):
    client = Client(headers={"Accept-Language": "zh-hans"})
    client.force_login(olga)
    return client


def error_texts(answer) -> list[str]:
    """What the page says is wrong."""
    found = [re.sub("<[^>]+>", "", text) for _, text in TOLD.findall(answer.content.decode())]
    return [unescape(text).strip() for text in found]


def require_chinese(answer) -> None:
    said = error_texts(answer)
    assert said, "nothing is said to be wrong"
    for sentence in said:
        assert CHINESE.search(sentence), sentence
        assert not ENGLISH.search(sentence), sentence


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_request_is_refused_in_chinese(page, team, wrong):
    answer = page.post("/request/", RIGHT | wrong)
    assert answer.status_code == 400
    require_chinese(answer)


def test_a_full_project_says_so_in_chinese(page, team):
    project_share_set(project=team, actor="root", max_pending=1)
    assert page.post("/request/", RIGHT).status_code == 302
    answer = page.post("/request/", RIGHT | {"key": "another"})
    assert "vision 有 1 个作业在等待，已达到可同时等待的上限" in "".join(error_texts(answer))
    require_chinese(answer)


def test_a_job_that_does_not_run_is_not_extended_in_chinese(page, olga, team):
    job = a_job(olga, team)
    answer = page.post(f"/jobs/{job.label}/extend", {"by": "1h"}, follow=True)
    assert "只有运行中的作业可以延长" in "".join(error_texts(answer))
    assert Job.objects.get().status == JobStatus.QUEUED
    require_chinese(answer)


@pytest.mark.parametrize(
    ("field", "text"),
    [("request", "image: [unclosed"), ("request", "3"), ("request", "gpus: 1"), ("name", "a/b")],
)
def test_a_wrong_template_is_refused_in_chinese(page, team, field, text):
    form = {"name": "Train", "description": "", "project": "vision", "request": "image: x"}
    answer = page.post("/templates/new", form | {field: text})
    assert answer.status_code == 400
    require_chinese(answer)


@pytest.mark.parametrize("url", ["ftp://example.org", "http://127.0.0.1/", "https://u:p@h/", "x y"])
def test_a_wrong_webhook_is_refused_in_chinese(page, team, url):
    form = {"name": "chat", "url": url, "project": "", "when": "over"}
    answer = page.post("/account/webhooks/", form)
    assert answer.status_code == 400
    require_chinese(answer)


def test_the_last_admin_of_a_project_stays_in_chinese(page, olga, team):
    Membership.objects.filter(user=olga).update(role=Role.ADMIN)
    form = {"user": "olga", "role": "viewer"}
    answer = page.post("/projects/vision/member", form, follow=True)
    require_chinese(answer)


def require_told(events: str, *sentences: str) -> None:
    cells = re.findall(r'<td class="mute">(.*?)</td>', events)
    for sentence in sentences:
        assert sentence in cells, cells
    for cell in cells:
        assert not ENGLISH.search(cell), cell


def test_the_history_of_a_job_is_told_in_chinese(page, olga, team):
    job = a_job(olga, team)
    other = a_user("paul")
    Membership.objects.create(project=team, user=other, role=Role.ADMIN)
    job_hold(job=job, actor=other, reason="数据未到")
    job_release(job=job, actor=other)
    job_cancel(job=job, actor="olga")
    events = page.get(f"/jobs/{job.label}/events").content.decode()
    require_told(events, "由 olga 提交", "paul 将其暂扣：数据未到", "paul 已放行", "olga 已取消")
    assert "排队中 → <b>已取消</b>" in events


def test_a_failure_is_told_in_chinese_from_its_code_or_its_exit(page, olga, team, node):
    job = a_job(olga, team, retries={"user": 0})
    settle(node)
    node.finish(exit_code=3)
    settle(node)
    shown = page.get(f"/jobs/{job.label}/").content.decode()
    assert "rank 0 以退出码 3 结束" in shown
    assert "rank 0 ended" not in shown
    attempt = job.attempts.get()
    attempt.first_failure |= {"code": "image_pull", "sentence": "x is not here", "exit_code": None}
    attempt.save()
    assert "无法拉取镜像（x is not here）" in page.get(f"/jobs/{job.label}/").content.decode()
    client = Client(headers={"Accept-Language": "en"})
    client.force_login(olga)
    assert "无法" not in client.get(f"/jobs/{job.label}/").content.decode()
