"""The pull of a job's image on the command line: in `show` and in the progress line of `--wait`."""

from __future__ import annotations

from typing import Any

from portal.cli.job_text import job_facts, progress_key, progress_text
from tests.unit.cli.fake_rest import NOW, a_row

SENTENCE = "The image is being pulled: 2.0 GiB of 8.0 GiB, 3 of 12 layers ready"


def pulling(*replicas: dict[str, Any]) -> dict[str, Any]:
    earlier = {"replicas": [{"node": "n0", "pull": None}]}
    return a_row(status="preparing", attempts=[earlier, {"replicas": list(replicas)}])


def a_replica(node: str, sentence: str = SENTENCE, cause: str = "") -> dict[str, Any]:
    return {"node": node, "pull": {"sentence": sentence, "cause": cause, "bytes_done": 1}}


def test_show_has_a_line_for_each_node_that_pulls():
    job = pulling(a_replica("n1"), a_replica("n1"), a_replica("n2", "\x1b[2Jelsewhere"))
    lines = [value for name, value in job_facts(job, NOW) if name == "Image pull"]
    assert lines == [f"n1: {SENTENCE}", "n2: elsewhere"]
    assert "Image pull" not in dict(job_facts(a_row(status="running"), NOW))


def test_show_has_the_digest_of_the_last_attempt():
    job = a_row(attempts=[{"image_digest": "sha256:1"}, {"image_digest": "sha256:2"}])
    assert dict(job_facts(job, NOW))["Image digest"] == "sha256:2"
    assert "Image digest" not in dict(job_facts(pulling(), NOW))


def test_show_has_the_repository_and_the_commit_of_its_code():
    source = "git+https://git.example/app.git@main"
    job = a_row(request={"code": source}, attempts=[{"code_commit": "1" * 40}])
    facts = dict(job_facts(job, NOW))
    assert (facts["Code"], facts["Code commit"]) == (source, "1" * 40)
    sent = dict(job_facts(a_row(request={"code": "8c5b0a3e-2f41-4a7d-9a63-0d9f3c1e7b52"}), NOW))
    assert not {"Code", "Code commit"} & sent.keys()


def test_the_progress_line_has_it():
    assert progress_text(pulling(a_replica("n1")), NOW).endswith(f" · n1: {SENTENCE}")


def test_a_file_gets_a_new_line_for_a_cause_but_not_for_every_byte():
    first, later = pulling(a_replica("n1")), pulling(a_replica("n1", "3.0 GiB"))
    failed = pulling(a_replica("n1", "The registry does not answer", "registry_away"))
    assert progress_key(first) == progress_key(later) != progress_key(failed)
