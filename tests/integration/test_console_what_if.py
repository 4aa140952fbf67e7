"""What-ifs in the console: asked by a form, followed, and answered in words and bars."""

import re

import pytest
from django.test import Client

from portal.what_if.models import WhatIf, WhatIfStatus
from tests.support.recorded_weeks import a_recorded_week
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/console/what-if/"


@pytest.fixture
def root() -> Client:
    a_recorded_week(a_user("alice"))
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    return client


def text(answer) -> str:
    return answer.content.decode().replace("\xa0", " ")


def test_the_answer_says_how_much_less_jobs_would_have_waited(root):
    form = {"days": "7", "quota_project": "vision", "quota_gpus": "1"}
    answer = root.post(PAGE, form, follow=True)
    page = text(answer)
    number = WhatIf.objects.get().pk
    assert answer.redirect_chain[-1][0] == f"{PAGE}{number}/"
    assert "vision may hold 1 GPUs" in page
    assert "jobs would have waited less" in page
    assert "The replay of the cluster as it is comes close" in page
    row = re.search(r">vision</th>(.*?)</tr>", page, re.DOTALL)
    assert row
    assert "1 h 30 min" in row[1]
    assert "30 min" in row[1]
    assert '<span class="sr">better</span>' in row[1]
    assert "data-stream" not in page, "nothing of it moves any more"
    assert "vision may hold 1 GPUs" in text(root.get(PAGE))


def test_what_makes_no_sense_is_said_at_the_input_that_it_came_from(root):
    for form, name in (
        ({}, "lines"),
        ({"days": "soon", "quota_gpus": "1", "quota_project": "vision"}, "days"),
        ({"quota_gpus": "many", "quota_project": "vision"}, "quota_gpus"),
        ({"nodes_count": "2", "nodes_like": "nowhere"}, "nodes_count"),
        ({"lines": "magic wand"}, "lines"),
        ({"lines": "policy magic=1"}, "lines"),
    ):
        answer = root.post(PAGE, {"days": "7"} | form)
        assert answer.status_code == 400, form
        assert f'id="{name}-error"' in text(answer), form
    assert not WhatIf.objects.exists()


def test_refusals_are_in_the_readers_language(root):
    chinese = {"headers": {"accept-language": "zh-hans"}}
    typed = root.post(PAGE, {"lines": "nodes two"}, **chinese)
    assert "请把 &#x27;two&#x27; 写成 COUNT:NODE，例如 2:node-a" in text(typed)
    refused = root.post(PAGE, {"without": "nowhere"}, **chinese)
    assert "没有节点 nowhere。现有" in text(refused)
    assert "请选择 1 到 90 天" in text(root.post(PAGE, {"days": "99", "without": "x"}, **chinese))


def test_why_one_waits_is_in_the_readers_language(root):
    boss = a_user("boss", is_superuser=True)
    said = {"key": "It waits for what-if %(numbers)s: one runs at a time"}
    said["values"] = {"numbers": "7"}
    row = WhatIf.objects.create(
        requester=boss, days=3, changes=[], sentence="It waits for what-if 7", message=said
    )
    page = root.get(f"{PAGE}{row.pk}/", headers={"accept-language": "zh-hans"})
    assert "正在等待假设分析 7" in text(page)


def test_unsaved_options_of_the_policy_are_asked_about(root):
    page = text(root.get(f"{PAGE}?policy=backfill%3Dconservative&policy=warm%3Dtrue"))
    assert "policy backfill=conservative\npolicy warm=true</textarea>" in page
    lines = "policy backfill=conservative\npolicy warm=true\nquota vision=1"
    assert root.post(PAGE, {"days": "7", "lines": lines}).status_code == 302
    row = WhatIf.objects.get()
    assert row.changes[1] == {"kind": "policy", "name": "warm", "value": True}
    assert row.status == WhatIfStatus.DONE


def test_one_that_runs_shows_its_progress_and_can_be_cancelled(root):
    boss = a_user("boss", is_superuser=True)
    row = WhatIf.objects.create(
        requester=boss, days=3, changes=[], status=WhatIfStatus.RUNNING, progress=40
    )
    page = text(root.get(f"{PAGE}{row.pk}/"))
    assert f'data-stream="{PAGE}{row.pk}/stream' in page
    assert "40 %. You may leave this page" in page
    root.post(f"{PAGE}{row.pk}/cancel")
    row.refresh_from_db()
    assert row.status == WhatIfStatus.CANCELLED
    assert "This what-if has already ended" in text(
        root.post(f"{PAGE}{row.pk}/cancel", follow=True)
    )


def test_what_does_not_exist_is_not_there(root):
    assert root.get(f"{PAGE}99/").status_code == 404
    assert root.post(f"{PAGE}99/cancel").status_code == 404
