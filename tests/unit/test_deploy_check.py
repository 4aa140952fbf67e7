"""`manage.py check --deploy` in the environment that docker-compose.yml gives a web container."""

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.examples import first_quick

ROOT = Path(__file__).resolve().parents[2]
NAME_AND_DEFAULT = re.compile(r"\$\{(\w+):[-?]([^}]*)\}")
OF_ENV_FILE = {
    "TESSERA_SECRET_KEY": secrets.token_hex(32),
    "TESSERA_ALLOWED_HOSTS": "gpu.example.org",
    "TESSERA_DB_PASSWORD": secrets.token_hex(24),
    "TESSERA_REDIS_PASSWORD": secrets.token_hex(24),
    "TESSERA_BROKER_PASSWORD": secrets.token_hex(24),
}


def web_environment(tmp_path: Path, **environ: str) -> dict[str, str]:
    """What compose makes of .env; the folders are of this machine."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    set_there = OF_ENV_FILE | environ

    def value(match: re.Match[str]) -> str:
        return set_there.get(match[1]) or match[2]

    passed = compose["services"]["web"]["environment"]
    return {name: NAME_AND_DEFAULT.sub(value, text) for name, text in passed.items()} | {
        "TESSERA_VAR": str(tmp_path),
        "TESSERA_SPOOL_FOLDER": str(tmp_path),
        "PATH": os.environ["PATH"],
    }


def manage(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_a_portal_as_shipped_has_nothing_that_the_check_warns_of(tmp_path):
    done = manage(web_environment(tmp_path), "check", "--deploy", "--fail-level", "WARNING")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "no issues" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environ", "warning"),
    first_quick(
        ({"TESSERA_TRUSTED_PROXIES": "0"}, "tessera.W001"),
        ({"TESSERA_HSTS_SECONDS": "0"}, "security.W004"),
        ({"TESSERA_HSTS_SUBDOMAINS": "false"}, "security.W005"),
        ({"TESSERA_SSL_REDIRECT": "no"}, "security.W008"),
    ),
)
def test_each_knob_that_opens_it_is_a_warning(tmp_path, environ, warning):
    done = manage(web_environment(tmp_path, **environ), "check", "--deploy")
    assert done.returncode == 0 and warning in done.stderr


def test_a_portal_that_cannot_start_says_all_of_it_in_sentences(tmp_path):
    key = tmp_path / "key"
    wrong = web_environment(
        tmp_path,
        TESSERA_ALLOWED_HOSTS="*",
        TESSERA_DATABASE_URL="sqlite:///x",
        TESSERA_MAX_STREAMS="lots",
    ) | {"TESSERA_SECRET_KEY": "", "TESSERA_SECRET_KEY_FILE": str(key)}
    done = manage(wrong, "migrate")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines() == [
        f"TESSERA_SECRET_KEY_FILE: {key} cannot be read (No such file or directory)",
        "TESSERA_MAX_STREAMS='lots' must be a whole number, 0 or more",
        "TESSERA_ALLOWED_HOSTS must name the portal's hosts, such as gpu.example.org; * would let "
        "any web site's name through.",
        "Set TESSERA_DATABASE_URL to a PostgreSQL database.",
    ]


@pytest.mark.slow
def test_a_portal_with_its_secrets_in_files_starts(tmp_path):
    env = web_environment(tmp_path)
    for name in [name for name in OF_ENV_FILE if name != "TESSERA_ALLOWED_HOSTS"]:
        path = tmp_path / name.lower()
        path.write_text(f"{env.pop(name)}\n")
        env[f"{name}_FILE"] = str(path)
    done = manage(env, "check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    shown = manage(env, "show_settings").stdout
    assert re.search(r"TESSERA_DB_PASSWORD +file +\*+\n", shown)
    assert not any(secret in shown for name, secret in OF_ENV_FILE.items() if "HOSTS" not in name)
