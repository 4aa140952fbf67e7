"""Metrics of jobs over REST: series, pages, CSV, and the filter of the list of jobs."""

import pytest

from agents.contract.job_metrics import SkippedCount, SkipReason
from portal.api.jobs import metric_views
from portal.jobs.models import Attempt, Job, Replica
from tests.support.agent_calls import an_agent
from tests.support.job_metrics import metrics_report, series_points
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica() -> Replica:
    return a_replica(an_agent().node)


@pytest.fixture
def get(client, replica):
    owner = replica.attempt.job.owner
    owner.is_superuser = True
    owner.save()
    client.force_login(owner)

    def call(path, **query):
        answer = client.get(f"/api/v1/{path}", query)
        assert answer.status_code == 200, answer.content
        return answer

    return call


def test_series_have_their_last_values_and_points(get, replica, monkeypatch):
    monkeypatch.setattr(metric_views, "MAX_SERIES", 2)
    names = ("acc", "loss", "lr")
    skipped = (SkippedCount(SkipReason.NOT_JSON, 4),)
    series = (series_points(name, (1, 0.5), (9, -0.25)) for name in names)
    metrics_report(replica, *series, skipped=skipped)
    path = f"jobs/{replica.attempt.job.label}/metrics"
    page = get(path).json()
    assert [row["name"] for row in page["results"]] == ["acc", "loss"]
    assert (page["next_after"], page["skipped"]) == (2, {"not_json": 4})
    assert page["results"][1] == {
        **{"name": "loss", "rank": 0, "attempt": 1, "count": 2, "last": -0.25, "last_step": 9},
        **{"low": -0.25, "high": 0.5, "points": [[1, 0.5], [9, -0.25]]},
    }
    rest = get(path, after=2, points="false").json()
    assert [(row["name"], row["points"]) for row in rest["results"]] == [("lr", [])]
    assert rest["next_after"] is None
    lines = get(path, name="loss", csv="true").content.decode().splitlines()
    assert lines == ["name,rank,step,value", "loss,0,1,0.5", "loss,0,9,-0.25"]


def test_a_speed_in_tokens_has_its_utilisation_whichever_series_are_asked_for(get, replica):
    metrics_report(replica, series_points("loss", (1, 0.5)))
    path = f"jobs/{replica.attempt.job.label}/metrics"
    assert get(path).json()["model_utilisation"] is None
    flops = series_points("model_flops_per_token", (1, 5e10))
    metrics_report(replica, series_points("tokens_per_second", (1, 1_000.0)), flops)
    found = get(path, name="loss").json()["model_utilisation"]
    assert (found["tokens_per_second"], found["flops_per_token"]) == (1_000, 5e10)
    assert (found["percent"], found["expected"]) == (None, None)
    # It holds no device that is known.
    assert "several kinds, or shares" in found["problem"]


def test_jobs_are_filtered_by_last_values(get, replica, client):
    metrics_report(
        replica, series_points("loss", (1, 0.9), (2, 0.25)), series_points("acc", (2, 1))
    )
    other = a_replica(replica.node)
    metrics_report(other, series_points("loss", (1, 0.1), (2, 0.5)))

    def found(metric: str) -> set[str]:
        return {row["id"] for row in get("jobs", metric=metric).json()["results"]}

    good, bad = replica.attempt.job.label, other.attempt.job.label
    assert found("loss<0.3") == {good}
    assert found("loss >= 0.25") == {good, bad}
    assert found("loss<1, acc=1") == {good}
    assert found("acc") == {good}
    assert found("nothing<1") == set()
    for wrong in ("loss<", "<3", "loss<1e999", "loss<0.3;x", "a,b,c,d,e", "loss<nan"):
        answer = client.get("/api/v1/jobs", {"metric": wrong})
        assert answer.status_code == 400, wrong
        assert "such as loss<0.3" in answer.json()["errors"][0]["message"]


def test_a_job_with_several_replicas_is_listed_once(get, replica):
    attempt = Attempt.objects.get(job=replica.attempt.job)
    second = Replica.objects.create(attempt=attempt, rank=1, node=replica.node)
    for row in (replica, second):
        metrics_report(row, series_points("loss", (1, 0.1)))
    assert Job.objects.count() == 1
    assert len(get("jobs", metric="loss<1").json()["results"]) == 1
