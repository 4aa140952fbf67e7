"""From a folder with one script to its results, with the command line alone: the code travels, the
metrics are there, the output comes back."""

import json
from pathlib import Path

import pytest

from tests.services.stack import Stack, until
from tests.support.cli_process import cli_process

pytestmark = [pytest.mark.services, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "docs/examples/train"


def test_a_folder_becomes_a_model(tmp_path, postgres_server, redis_server):
    results = tmp_path / "results"
    results.mkdir()
    url = postgres_server.create_database(migrated=True)
    with Stack(tmp_path / "var", database_url=url, redis_url=redis_server.url()) as stack:
        tessera = cli_process(
            tmp_path, TESSERA_URL=stack.url, TESSERA_TOKEN=str(stack.seeded["token"])
        )
        done = tessera(
            *("submit", "--sync", str(EXAMPLE), "--project", "vision", "--image", "example/app"),
            *("--mig", "1g.18gb", "--cpu", "100m", "--memory", "128MiB", "--time", "10m", "-W"),
            *("--", "python3", "train.py", "--pause", "0"),
        )
        assert done.returncode == 0, done.stderr
        job = done.stdout.strip()
        assert tessera("logs", job).stdout.strip() == "y = 3.00 x + 2.00"

        def copied() -> bool:
            return tessera("cp", f"{job}:model.json", str(results)).returncode == 0

        until(copied, what="the output to be there")
        assert json.loads((results / "model.json").read_text())["step"] == 200

        def last_loss() -> float | None:
            shown = tessera("metrics", job, "-o", "json")
            rows = json.loads(shown.stdout)["results"] if shown.returncode == 0 else []
            return next((row["last"] for row in rows if row["name"] == "loss"), None)

        assert until(last_loss, what="the metrics") == pytest.approx(0, abs=0.001)
        again = tessera("retry", job)
        assert again.returncode == 0, again.stderr
        copy = stack.until_status(again.stdout.strip(), "succeeded", "failed")
        assert copy["status"] == "succeeded"
        assert copy["request"]["code"] == stack.job(job)["request"]["code"]
