"""Gangs without progress: warned on the page and by notice, then stopped if the settings want it,
with a cause of their own that names a rank."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone
from django.utils.translation import override

from portal.accounts.models import User
from portal.audit.models import Event
from portal.diagnosis.services import diagnoses_refresh
from portal.idle.hang_limits import HungLimits
from portal.idle.hung import hung_gangs_sweep
from portal.idle.models import GangProgress
from portal.jobs.models import Attempt, Job, Replica
from portal.notices.collection import notices_collect
from portal.notices.models import Notice
from portal.notices.sentences import notice_line
from portal.submission.limits import request_limits
from portal.web.wording.messages import failure_text
from tests.support.rows import a_job, a_node, settle

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
NOW = timezone.now()
GANG = {"device": {"gpus": 1}, "replicas": 2, "topology": "any"}
OFF = HungLimits(warn_minutes=0, stop_minutes=0)
STOPS = HungLimits(warn_minutes=60, stop_minutes=80)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def job(olga, team, node) -> Job:
    return start(olga, team, node)


def start(olga, team, node, **fields) -> Job:
    job = a_job(olga, team, **GANG | fields)
    settle(node)
    Job.objects.filter(pk=job.pk).update(started_at=NOW)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def writes(rank: int, size: int) -> None:
    Replica.objects.filter(rank=rank).update(log_bytes=size)


def look(minute: int, limits: HungLimits = STOPS) -> None:
    hung_gangs_sweep(now=NOW + minute * MINUTE, limits=limits)


def silent(minute: int, limits: HungLimits = STOPS) -> None:
    """Rank 1 has written last in minute 0, rank 0 in minute 1; they are looked at in `minute`."""
    writes(1, 10)
    look(0, limits)
    writes(0, 10)
    look(1, limits)
    look(minute, limits)


def codes(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job).order_by("id").values_list("code", flat=True))


def test_without_a_limit_no_rank_is_read(job, django_assert_num_queries):
    with django_assert_num_queries(2):
        look(0, OFF)


def test_a_silent_gang_is_warned_once_and_only_stopped_where_that_is_wanted(job):
    only_warned = HungLimits(60, 0)
    silent(61, only_warned)
    look(62, only_warned)
    look(900, only_warned)
    assert codes(job).count("job_hung") == 1
    assert Event.objects.get(code="job_hung").sentence == (
        "no rank has written a log line or a metric for 60 min; rank 1 was the first to fall silent"
    )
    job.refresh_from_db()
    assert job.status == "running"


def test_it_is_stopped_with_its_own_cause_and_tried_again(olga, team, node):
    job = start(olga, team, node, retries={"infrastructure": 1})
    silent(61)
    look(80)
    job.refresh_from_db()
    assert job.status == "running", "not before the time that was told"
    look(81)
    settle(node)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == ("running", 2)
    failure = job.attempts.earliest("number").first_failure
    assert (failure["code"], failure["rank"]) == ("hung", 1)
    with override("zh-hans"):
        assert "rank 1 最先沉默" in failure_text(failure)
    Replica.objects.update(log_bytes=0)
    diagnoses_refresh()
    assert job.attempts.earliest("number").finding["cause"] == "hung"
    look(82)
    row = GangProgress.objects.get()
    assert (row.attempt, row.warned_at) == (job.attempts.latest("number").fence, None)


def test_a_line_in_time_ends_the_warning(job):
    silent(61)
    assert GangProgress.objects.get().warned_at
    writes(0, 20)
    look(70)
    look(90)
    assert GangProgress.objects.get().warned_at is None
    job.refresh_from_db()
    assert job.status == "running"


def test_a_round_that_breaks_off_warns_in_the_next_one_and_only_once(job, monkeypatch):
    silent(59)

    def breaks_off(*_, **__):
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(type(GangProgress.objects), "bulk_create", breaks_off)
        with pytest.raises(RuntimeError):
            look(61)
    assert "job_hung" not in codes(job)
    look(62)
    look(63)
    assert codes(job).count("job_hung") == 1


def test_a_round_does_not_read_the_request_of_each_rank(job):
    with CaptureQueriesContext(connection) as queries:
        look(0)
    read = [query["sql"].partition(" FROM ") for query in queries]
    of_ranks = [columns for columns, _, rest in read if rest.startswith('"jobs_replica"')]
    assert len(of_ranks) == 1 and '"request"' not in of_ranks[0]


def test_single_jobs_and_jobs_that_asked_for_it_are_left_alone(olga, team, node):
    start(olga, team, node, replicas=1)
    start(olga, team, node, idle_stop=False, device={"mig": "1g.18gb"})
    silent(500)
    assert not GangProgress.objects.exists()


def test_the_page_and_a_notice_say_so(client, olga, job, node):
    User.objects.update(email="olga@example.org")
    notices_collect(NOW, mails=True)
    silent(61)
    client.force_login(olga)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "Rank 1 fell silent first. The job is stopped at" in text
    notices_collect(NOW + 62 * MINUTE, mails=True)
    lines = [notice_line(notice, "").text for notice in Notice.objects.all()]
    # The end of the job's limit may be near, too: NOW is when this file was read.
    (told,) = [text for text in lines if "limit" not in text]
    assert f"{job.label} sum makes no progress, and is stopped at" in told


@pytest.mark.parametrize("limits", [OFF, STOPS], ids=["no policy", "policy"])
def test_a_job_is_stopped_by_a_limit_of_its_own(limits, olga, team, node):
    """Also before it has written anything: what hangs while its ranks meet writes nothing."""
    job = start(olga, team, node, progress_limit="20m", retries={"infrastructure": 0})
    look(1, limits)
    look(14, limits)
    assert "job_hung" not in codes(job)
    look(16, limits)
    assert codes(job).count("job_hung") == 1
    look(20, limits)
    job.refresh_from_db()
    assert job.status == "running", "the warning came five minutes before"
    look(22, limits)
    settle(node)
    job.refresh_from_db()
    assert (job.status, job.attempts.get().first_failure["code"]) == ("failed", "hung")


def test_a_limit_of_its_own_is_not_stretched_by_earlier_pauses_and_ends_with_a_line(
    olga, team, node
):
    job = start(olga, team, node, progress_limit="30m")
    look(1, OFF)
    writes(0, 10)
    look(20, OFF)
    look(44, OFF)
    assert "job_hung" not in codes(job)
    look(46, OFF)
    assert codes(job).count("job_hung") == 1
    writes(1, 10)
    look(47, OFF)
    look(60, OFF)
    assert GangProgress.objects.get().warned_at is None
    job.refresh_from_db()
    assert job.status == "running"


def test_a_limit_that_only_warns_leaves_the_stop_to_the_policy(olga, team, node):
    job = start(olga, team, node, progress_limit="15m:warn")
    for minute in (1, 14):
        look(minute, STOPS)
    assert "job_hung" not in codes(job)
    look(16, STOPS)
    row = GangProgress.objects.get()
    assert row.warned_at == NOW + 16 * MINUTE
    assert row.stops_at == row.warned_at + 65 * MINUTE
    Job.objects.update(request=Job.objects.get().request | {"idle_stop": False})
    GangProgress.objects.update(warned_at=None, stops_at=None)
    look(17, STOPS)
    assert GangProgress.objects.get().stops_at is None, "its policy does not hold for it"


def test_a_policy_that_was_lowered_since_stops_what_only_asked_for_a_warning(olga, team, node):
    start(olga, team, node, progress_limit="2h:warn")
    lowered = HungLimits(warn_minutes=20, stop_minutes=30)
    look(1, lowered)
    look(24, lowered)
    assert GangProgress.objects.get().warned_at is None
    look(26, lowered)
    row = GangProgress.objects.get()
    assert (row.warned_at, row.stops_at) == (NOW + 26 * MINUTE, NOW + 31 * MINUTE)


def test_where_nothing_is_judged_a_request_may_ask_for_any_limit():
    knobs = replace(settings.PLATFORM, hung_warn_minutes=0, hung_stop_minutes=30)
    with override_settings(PLATFORM=knobs):
        assert request_limits().hung_stop_seconds == 0
    with override_settings(PLATFORM=replace(knobs, hung_warn_minutes=20)):
        assert request_limits().hung_stop_seconds == 1_800


def test_a_job_of_one_replica_may_ask_for_a_limit(client, olga, team, node):
    job = start(olga, team, node, replicas=1, progress_limit="15m", retries={"infrastructure": 0})
    look(1, OFF)
    look(11, OFF)
    told = Event.objects.get(code="job_hung").sentence
    assert told == "it has written neither a log line nor a metric for 11 min"
    client.force_login(olga)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "The job is stopped at" in text and "unless it writes again" in text
    look(17, OFF)
    settle(node)
    job.refresh_from_db()
    assert (job.status, job.attempts.get().first_failure["code"]) == ("failed", "hung")


def test_time_without_contact_is_no_silence_of_a_job_that_never_wrote(olga, team, node):
    start(olga, team, node, progress_limit="20m")
    look(1, OFF)
    Attempt.objects.update(silent_since=NOW)
    look(60, OFF)
    Attempt.objects.update(silent_since=None)
    look(61, OFF)
    assert GangProgress.objects.get().warned_at is None
    look(76, OFF)
    assert GangProgress.objects.get().warned_at


def test_a_job_that_says_nothing_is_judged_by_the_settings_beside_one_that_does(olga, team, node):
    start(olga, team, node, device={"mig": "1g.18gb"}, progress_limit="20m")
    look(1, OFF)
    look(16, OFF)
    assert GangProgress.objects.get().warned_at
    start(olga, team, node, device={"mig": "1g.18gb"})
    look(17, STOPS)
    assert GangProgress.objects.count() == 2
    assert GangProgress.objects.filter(warned_at=None).count() == 1
