"""docker-compose.yml and the Dockerfile agree with the repository, and with old and new compose."""

import re
from pathlib import Path

import pytest
import yaml

from agents.configuration.declaration import settings_of
from agents.contract.version import VERSION
from portal.configuration.report import known_names
from portal.platform import Platform

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = ("migrate", "web", "agent-web", "worker", "beat")
# The same wherever the image runs.
OF_THE_CONTAINER = {
    *("DJANGO_SETTINGS_MODULE", "TESSERA_VAR", "TESSERA_HEARTBEAT_FILE"),
    "TESSERA_SPOOL_FOLDER",
}


def reader_of(service):
    """By the name that settings give their readers."""
    return "web" if service == "agent-web" else service


def test_the_image_has_the_version_of_the_project():
    assert f"\nARG VERSION={VERSION}\n" in (ROOT / "Dockerfile").read_text()
    tags = {SERVICES[name]["image"] for name in OURS}
    assert tags == {f"tessera-portal:${{TESSERA_VERSION:-{VERSION}}}"}


def test_the_image_has_every_package_that_the_portal_imports():
    copied = set(re.findall(r"^COPY (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    imports = re.compile(r"^\s*(?:from|import) (agents\.\w+)", re.MULTILINE)
    ours = [
        ROOT / folder for folder in copied if folder.startswith(("scheduler", "portal", "agents/"))
    ]
    assert len(ours) > 3
    needed = {
        name
        for folder in ours
        for source in folder.rglob("*.py")
        for name in imports.findall(source.read_text())
    }
    assert {name.replace(".", "/") for name in needed} <= copied


def test_keys_that_old_compose_refuses_are_not_used():
    # docker-compose 1.29 of Debian 12; `name` is of compose 2.
    assert set(COMPOSE) == {"x-settings", "x-portal", "services", "networks", "volumes"}


@pytest.mark.parametrize("name", OURS)
def test_each_service_has_the_settings_that_it_reads_and_no_others(name):
    read = {one.name for one in settings_of(Platform) if reader_of(name) in one.readers}
    passed = SERVICES[name]["environment"]
    assert (read - set(passed), set(passed) - read) == (set(), set())
    for variable, value in passed.items():
        assert variable in OF_THE_CONTAINER or value.startswith(f"${{{variable}:"), variable


def test_a_default_stands_in_one_place():
    """What .env lacks is empty in the container, and then the declared default holds."""
    other = {
        variable: value
        for name in OURS
        for variable, value in SERVICES[name]["environment"].items()
        if value != f"${{{variable}:-}}"
    }
    assert "first lines of docker-compose.yml" in other.pop("TESSERA_ALLOWED_HOSTS")
    assert set(other) == OF_THE_CONTAINER | {
        *("TESSERA_DATABASE_URL", "TESSERA_REDIS_URL", "TESSERA_BROKER_URL"),
        "TESSERA_TRUSTED_PROXIES",
    }


def test_compose_names_no_setting_that_there_is_not():
    for path in ("docker-compose.yml", "deploy/secrets.yml"):
        named = set(re.findall(r"TESSERA_[A-Z0-9_]+", (ROOT / path).read_text()))
        assert named - known_names() - {"TESSERA_SECRETS"} == set(), path


def test_secrets_come_from_files_where_they_are_read_and_nowhere_else():
    files = yaml.safe_load((ROOT / "deploy" / "secrets.yml").read_text())
    secret = {one.file_name: one for one in settings_of(Platform) if one.is_secret}
    needed = {
        f"TESSERA_{name}_FILE"
        for name in ("SECRET_KEY", "DB_PASSWORD", "REDIS_PASSWORD", "BROKER_PASSWORD")
    }
    for name in OURS:
        passed = set(files["services"][name]["environment"])
        assert passed == {one for one in needed if reader_of(name) in secret[one].readers}, name
    for name in (*OURS, "db", "redis"):
        service = files["services"][name]
        mounted = sorted(f"/run/secrets/{one}" for one in service["secrets"])
        assert sorted(service["environment"].values()) == mounted, name
        assert set(service["secrets"]) <= set(files["secrets"]), name


def test_data_is_found_whatever_the_project_is_called():
    assert {kept["name"] for kept in COMPOSE["volumes"].values()} == {
        "tessera_database",
        "tessera_logs",
    }


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_each_service_that_stays_has_a_check_and_comes_back(name):
    service = SERVICES[name]
    if name == "migrate":
        assert service["restart"] == "on-failure:5"
        return
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


def test_one_service_has_the_port_so_that_all_others_can_be_scaled():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["entry"]
    conf = (ROOT / "deploy" / "entry.conf").read_text()
    assert re.findall(r"listen (\d+);", conf) == ["8000"]
    assert SERVICES["entry"]["ports"] == ["127.0.0.1:8000:8000"]


@pytest.mark.parametrize("name", [*OURS, "entry", "redis"])
def test_services_may_change_nothing_of_their_container(name):
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
