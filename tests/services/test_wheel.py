"""The wheel in empty environments, one for each of its commands, far from any checkout."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agents.contract.boards import known_boards
from agents.contract.version import VERSION
from tests.environment.programs import free_port
from tests.services.stack import until
from tests.support.wheels import ROOT, Environment, NoIndex, build_wheel, make_environment

pytestmark = [pytest.mark.services, pytest.mark.slow]
# Kinds of files that packages have beside their code. A README is for readers of the repository.
NOT_INSTALLED = {".md", ".pyc"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    try:
        return build_wheel(tmp_path_factory.mktemp("wheel"))
    except NoIndex:
        pytest.skip("no index from which a build could take setuptools")


@pytest.fixture(scope="module")
def agent(wheel, tmp_path_factory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("agent") / "env", wheel, "agent")


@pytest.fixture(scope="module")
def cli(wheel, tmp_path_factory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("cli") / "env", wheel, "cli")


@pytest.fixture(scope="module")
def portal(wheel, tmp_path_factory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("portal") / "env", wheel, "portal")


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> dict[str, str]:
    var = tmp_path_factory.mktemp("var")
    return {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_VAR": str(var),
        "DJANGO_SUPERUSER_PASSWORD": "a long password of a test",
    }


@pytest.fixture(scope="module")
def portal_url(portal: Environment, settings: dict[str, str]) -> Iterator[str]:
    done = portal.run("tessera-portal", "migrate", "-v", "0", **settings)
    assert done.returncode == 0, done.stderr
    port = str(free_port())
    words = ("-m", "uvicorn", "portal.asgi:application", "--port", port, "--log-level", "warning")
    web = subprocess.Popen(
        [str(portal.program("python")), *words],
        cwd=portal.work,
        env=portal.variables(**settings),
    )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: _is_ready(web, url), what="the portal")
        yield url
    finally:
        web.kill()
        web.wait()


def _is_ready(web: subprocess.Popen[bytes], url: str) -> bool:
    assert web.poll() is None, "the portal has ended"
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_it_has_every_file_of_its_packages(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "agents", "portal", "scheduler", "templates"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    # setup.py puts the templates into the package that shows them.
    wanted = {
        f"portal/{name}" if name.startswith("templates/") else name
        for name in tracked
        if Path(name).suffix not in NOT_INSTALLED
    }
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert len(wanted) > 800
    assert wanted - inside == set()
    assert not [name for name in inside if name.startswith(("tests", "docs"))]


def test_an_environment_has_the_packages_of_its_command_alone(agent, cli):
    assert agent.imports("docker") and agent.imports("pynvml")
    assert cli.imports("typer") and cli.imports("httpx")
    for environment in (agent, cli):
        assert not any(map(environment.imports, ("django", "celery", "numpy", "pip")))
    assert not cli.imports("cryptography") and not agent.imports("typer")


def test_every_command_has_the_one_version(agent, cli, portal):
    assert cli.run("tessera", "--version").stdout == f"tessera {VERSION}\n"
    assert agent.run("tessera-agent", "--version").stdout == f"tessera-agent {VERSION}\n"
    read = "from importlib.metadata import version; print(version('tessera-gpu'))"
    assert portal.run("python", "-c", read).stdout == f"{VERSION}\n"


def test_a_command_without_its_packages_names_them(cli, agent):
    assert "tessera-gpu[portal]" in cli.run("tessera-portal", "check").stderr
    assert "tessera-gpu[agent]" in cli.run("tessera-agent", "doctor").stderr
    assert "tessera-gpu[cli]" in agent.run("tessera", "ps").stderr


def test_the_agent_knows_boards_and_examines_a_node(agent, tmp_path):
    boards = json.loads(agent.run("tessera-agent", "boards", "--json").stdout)
    assert {board["key"] for board in boards["boards"]} == set(known_boards())
    state = str(tmp_path / "driver.json")
    made = agent.run("tessera-agent", "simulate", "create", "--path", state, "--gpus", "2")
    assert made.returncode == 0, made.stderr
    var = ("--var", str(tmp_path / "agent"), "--runtime", "process")
    doctor = agent.run("tessera-agent", "doctor", "--json", *var, TESSERA_SIMULATED_DRIVER=state)
    found = {row["code"]: row["verdict"] for row in json.loads(doctor.stdout)["findings"]}
    assert found["driver.answers"] == "ok" and found["host.agent_folder"] == "ok", doctor.stdout


def test_the_agent_finds_the_installed_portal(agent, portal_url, tmp_path):
    words = ("--runtime", "process", "--var", str(tmp_path / "agent"), "--portal", portal_url)
    doctor = agent.run("tessera-agent", "doctor", "--json", *words)
    found = {row["code"]: row["verdict"] for row in json.loads(doctor.stdout)["findings"]}
    assert (found["portal.reach"], found["portal.clock"]) == ("ok", "ok"), doctor.stdout


def test_the_service_of_a_node_runs_the_installed_agent(agent):
    options = ("--portal", "https://portal.example", "--name", "gpu01")
    unit = agent.run("tessera-agent", "install-service", "--print", *options)
    assert unit.returncode == 0, unit.stderr
    program = f'ExecStart="{agent.program("python")}" "-m" "agents" "run"'
    assert program in unit.stdout and "/site-packages\n" in unit.stdout


def test_the_portal_is_complete(portal, settings, portal_url):
    checked = portal.run("tessera-portal", "check", **settings)
    assert (checked.returncode, checked.stdout) == (
        0,
        "System check identified no issues (0 silenced).\n",
    )
    forgotten = portal.run("tessera-portal", "check")
    assert "DJANGO_SETTINGS_MODULE" in forgotten.stderr and "Traceback" not in forgotten.stderr
    with httpx.Client(base_url=portal_url, trust_env=False) as http:
        page = http.get("/sign-in/", headers={"Accept-Language": "zh-hans"})
        assert page.status_code == 200 and "登录" in page.text
        assert http.get("/static/tokens.css").status_code == 200


def test_the_command_signs_in_at_the_installed_portal(cli, portal, settings, portal_url, tmp_path):
    admin = ("createsuperuser", "--no-input", "--username", "ada", "--email", "ada@example.org")
    made = portal.run("tessera-portal", *admin, **settings)
    assert made.returncode == 0, made.stderr
    token = portal.run("tessera-portal", "token", "ada", **settings).stdout
    config = {"TESSERA_CONFIG": str(tmp_path / "config.yaml"), "NO_PROXY": "*"}
    login = cli.run("tessera", "login", portal_url, "--token-stdin", input=token, **config)
    assert login.returncode == 0 and f"Signed in to {portal_url}" in login.stderr, login.stderr
    assert cli.run("tessera", "whoami", "-o", "name", **config).stdout == "ada\n"
