"""A failed job is diagnosed once, from its stored end and its log, and again if the log grows."""

import pytest
from django.utils import timezone

from portal.diagnosis.log_ends import TAIL_BYTES, replica_log_end
from portal.diagnosis.services import diagnoses_refresh, due_attempts, due_jobs, job_diagnose
from portal.jobs.models import Attempt, Job, Replica
from scheduler.core.model.states import JobStatus
from tests.support.failed_jobs import a_failed_job, write_failed_log
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db

HEADER = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
OUT_OF_MEMORY = (
    b"epoch 1\nTraceback (most recent call last):\n"
    b'  File "/job/train.py", line 9, in <module>\n    loss.backward()\n'
    b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 17.50 GiB total"
    b" capacity; 16.31 GiB already allocated; 0.42 GiB free; 16.60 GiB reserved in total by"
    b" PyTorch)\n"
)


@pytest.fixture
def home():
    user = a_user("alice")
    a_node("node-a")
    return user, a_project("vision", user)


def diagnosed(job: Job) -> Job:
    job_diagnose(job_id=job.pk)
    job.refresh_from_db()
    return job


def test_the_first_failed_replica_tells_with_its_line_and_a_larger_device(home):
    job = a_failed_job(*home, OUT_OF_MEMORY, device={"mig": "1g.18gb"})
    stored = diagnosed(job).diagnosis
    assert job.failure_cause == "gpu_memory"
    assert stored["confidence"] == "certain"
    assert stored["sentence"] == "CUDA ran out of memory: it tried to allocate 2.00 GiB"
    assert stored["evidence"]["line"] == 5
    assert stored["evidence"]["rank"] == 0
    assert stored["evidence"]["text"].startswith("RuntimeError: CUDA out of memory")
    assert stored["remedy"]["sentence"] == "Ask again with 35 GB"
    assert stored["remedy"]["changes"] == {"device": {"mig": "1g.35gb"}}


def test_each_failed_job_is_due_once_and_again_while_its_log_grows(home):
    job = a_failed_job(*home, b"epoch 1\n")
    assert due_jobs() == [job.pk]
    assert diagnoses_refresh() == 1
    assert due_jobs() == []
    job.refresh_from_db()
    assert job.failure_cause == "exit_code"
    write_failed_log(job, OUT_OF_MEMORY)
    assert due_jobs() == [job.pk]
    diagnoses_refresh()
    job.refresh_from_db()
    assert job.failure_cause == "gpu_memory"
    assert due_jobs() == []


def test_jobs_that_did_not_fail_have_no_diagnosis(home):
    job = a_job(*home)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.SUCCEEDED, finished_at=timezone.now())
    assert due_jobs() == []
    assert diagnosed(job).diagnosis is None


def test_of_a_gang_the_rank_that_broke_is_named(home):
    lost = HEADER + b"torch.distributed.DistBackendError: NCCL error in: x\n"
    job = a_failed_job(*home, lost, replicas=2)
    write_failed_log(job, OUT_OF_MEMORY, rank=1)
    Replica.objects.filter(attempt__job=job).update(exit_code=1, ended_unasked=True)
    assert diagnosed(job).diagnosis["evidence"]["rank"] == 1
    assert job.failure_cause == "gpu_memory"


def test_the_engines_word_that_memory_ran_out_needs_no_log(home):
    job = a_failed_job(*home, b"", exit_code=137, code="memory_kill", memory="2GiB")
    Replica.objects.filter(attempt__job=job).update(memory_kill=True)
    stored = diagnosed(job).diagnosis
    assert (job.failure_cause, stored["confidence"]) == ("host_memory", "certain")
    assert stored["remedy"]["changes"] == {"memory": "4GiB"}


def test_an_image_that_the_registry_lacks_is_named_by_the_stored_end(home):
    job = a_failed_job(*home, b"", exit_code=None, status="failed", code="image_pull")
    said = {
        "key": "The registry has no image %(image)s: check its name and tag",
        "values": {"image": "lab/none:1"},
    }
    failure = {"rank": 0, "status": "failed", "code": "image_pull", "exit_code": None}
    failure |= {"sentence": "The registry has no image lab/none:1", "said": said}
    Attempt.objects.filter(job=job).update(first_failure=failure)
    stored = diagnosed(job).diagnosis
    assert job.failure_cause == "image_missing"
    assert stored["remedy"]["action"] == "edit"
    assert stored["remedy"]["field"] == "image"


def test_secrets_are_not_kept(home):
    log = HEADER + b"ValueError: key hunter2hunter2 refused\n"
    job = a_failed_job(*home, log, env={"SERVICE_KEY": "hunter2hunter2"})
    assert "hunter2" not in str(diagnosed(job).diagnosis)


def test_a_secret_that_is_cut_at_the_end_of_the_headline_is_not_kept(home):
    log = HEADER + b"ValueError: " + b"x" * 180 + b" hunter2hunter2 refused\n"
    job = a_failed_job(*home, log, env={"SERVICE_KEY": "hunter2hunter2"})
    assert "hunter" not in str(diagnosed(job).diagnosis)


def test_a_job_that_breaks_the_diagnosis_keeps_no_other_from_its_own(home):
    broken, job = a_failed_job(*home), a_failed_job(*home)
    Job.objects.filter(pk=broken.pk).update(request={}, finished_at=timezone.now())
    Attempt.objects.filter(job=broken).update(first_failure={"code": "memory_kill"})
    diagnoses_refresh()
    job.refresh_from_db()
    assert job.failure_cause == "exit_code"


def test_an_attempt_that_was_followed_by_another_keeps_its_finding(home):
    job = a_failed_job(*home, OUT_OF_MEMORY)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.QUEUED, stop_reason="", finished_at=None)
    assert due_jobs() == []
    assert due_attempts() == [job.attempts.get().pk]
    diagnoses_refresh()
    finding = job.attempts.get().finding
    assert finding["cause"] == "gpu_memory"
    assert (finding["evidence"]["attempt"], finding["evidence"]["line"]) == (1, 5)
    assert due_attempts() == []


def test_the_last_attempt_of_a_failed_job_has_the_finding_of_its_job(home):
    job = a_failed_job(*home, OUT_OF_MEMORY)
    diagnoses_refresh()
    job.refresh_from_db()
    assert job.attempts.get().finding.items() <= job.diagnosis.items()
    assert due_attempts() == []


def test_of_a_large_log_the_end_and_the_last_traceback_are_read(home):
    before = b"step\n" * 200_000
    dump = b"NCCL flight recorder entry 0123456789abcdef\n" * 30_000
    job = a_failed_job(*home, before + OUT_OF_MEMORY + dump)
    replica = Replica.objects.select_related("attempt__job").get(attempt__job=job)
    lines = replica_log_end(replica)
    assert sum(len(line.text) + 1 for line in lines) < TAIL_BYTES + 128 * 1024
    assert any("CUDA out of memory" in line.text and line.number == 200_005 for line in lines)
    assert diagnosed(job).diagnosis["evidence"]["line"] == 200_005


def test_a_job_that_never_ran_has_a_cause_too(home):
    job = a_job(*home)
    Job.objects.filter(pk=job.pk).update(
        status=JobStatus.FAILED, stop_reason="dependency", finished_at=timezone.now()
    )
    assert diagnosed(job).failure_cause == "dependency"
