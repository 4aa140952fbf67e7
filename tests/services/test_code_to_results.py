"""From a folder with one script to its results, with the command line alone: the code travels, the
metrics are there, the output comes back."""

import json

import pytest

from tests.services.stack import Stack, until
from tests.support.cli_process import cli_process

pytestmark = [pytest.mark.services, pytest.mark.slow]

SCRIPT = """
import json, os, pathlib, tools
assert pathlib.Path.cwd() == pathlib.Path(os.environ["TESSERA_CODE_DIR"])
with open(os.environ["TESSERA_METRICS_FILE"], "a") as metrics:
    for step in range(5):
        print(json.dumps({"step": step, "name": "loss", "value": 1 / (step + 1)}), file=metrics)
pathlib.Path(os.environ["TESSERA_OUTPUT_DIR"], "model.bin").write_bytes(tools.weights())
print("trained")
"""
TOOLS = "def weights():\n    return b'weights' * 1000\n"


def test_a_folder_becomes_a_model(tmp_path, postgres_server, redis_server):
    folder, results = tmp_path / "code", tmp_path / "results"
    folder.mkdir()
    results.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "tools.py").write_text(TOOLS)
    url = postgres_server.create_database(migrated=True)
    with Stack(tmp_path / "var", database_url=url, redis_url=redis_server.url()) as stack:
        tessera = cli_process(
            tmp_path, TESSERA_URL=stack.url, TESSERA_TOKEN=str(stack.seeded["token"])
        )
        done = tessera(
            *("submit", "--sync", str(folder), "--project", "vision", "--image", "example/app"),
            *("--mig", "1g.18gb", "--cpu", "100m", "--memory", "128MiB", "--time", "10m", "-W"),
            *("--", "python3", "train.py"),
        )
        assert done.returncode == 0, done.stderr
        job = done.stdout.strip()
        assert tessera("logs", job).stdout.strip() == "trained"

        def copied() -> bool:
            return tessera("cp", f"{job}:model.bin", str(results)).returncode == 0

        until(copied, what="the output to be there")
        assert (results / "model.bin").read_bytes() == b"weights" * 1000

        def last_loss() -> float | None:
            shown = tessera("metrics", job, "-o", "json")
            rows = json.loads(shown.stdout)["results"] if shown.returncode == 0 else []
            return next((row["last"] for row in rows if row["name"] == "loss"), None)

        assert until(last_loss, what="the metrics") == pytest.approx(0.2)
        again = tessera("retry", job)
        assert again.returncode == 0, again.stderr
        copy = stack.until_status(again.stdout.strip(), "succeeded", "failed")
        assert copy["status"] == "succeeded"
        assert copy["request"]["code"] == stack.job(job)["request"]["code"]
