"""Why a job failed, on the command line."""

import json

from tests.unit.cli.fake_rest import Rest, a_row

OUT_OF_MEMORY = {
    "cause": "gpu_memory",
    "confidence": "certain",
    "sentence": "CUDA ran out of memory: it tried to allocate 2.00 GiB",
    "advice": {"sentence": "Ask for more GPU memory, or use a smaller batch or model"},
    "evidence": {
        "attempt": 1,
        "rank": 3,
        "line": 41,
        "text": "torch.OutOfMemoryError: CUDA out of memory",
    },
    "remedy": {
        "action": "change",
        "sentence": "Ask again with 35 GB",
        "changes": {"device": {"mig": "1g.35gb"}},
        "field": "",
    },
}


def test_why_tells_what_failed_with_the_line_that_shows_it_and_what_to_do():
    rest = Rest().on("GET", "jobs/J-12", a_row(status="failed", diagnosis=OUT_OF_MEMORY))
    out = rest.run("why", "J-12").stdout
    for words in (
        "CUDA ran out of memory",
        "gpu_memory",
        "rank 3, line 41",
        "torch.OutOfMemoryError",
        "Ask for more GPU memory",
        'Ask again with 35 GB: {"device": {"mig": "1g.35gb"}}',
    ):
        assert words in out
    assert json.loads(rest.run("why", "J-12", "-o", "json").stdout)["diagnosis"] == OUT_OF_MEMORY
    assert rest.run("why", "J-12", "-o", "name").stdout == "gpu_memory\n"


def test_ps_names_the_cause_of_failed_jobs_and_lists_those_of_a_cause():
    rest = Rest().on("GET", "jobs", {"results": [a_row(status="failed", diagnosis=OUT_OF_MEMORY)]})
    assert "gpu_memory" in rest.run("ps", "--cause", "gpu_memory").stdout
    (call,) = rest.calls
    assert call.url.params.get_list("cause") == ["gpu_memory"]
    assert not call.url.params.get_list("status")


def test_show_tells_why_each_attempt_failed():
    attempts = [
        {"number": 1, "outcome": "failed", "replicas": [], "finding": OUT_OF_MEMORY},
        {"number": 2, "outcome": "", "replicas": [], "finding": None},
    ]
    rest = Rest().on("GET", "jobs/J-12", a_row(attempts=attempts))
    assert (
        "Attempt 1, failed\nCUDA ran out of memory: it tried to allocate 2.00 GiB"
        " (gpu_memory, rank 3, line 41)"
    ) in rest.run("show", "J-12", "-o", "wide").stdout
