"""Servers of notebooks: only the portal lets people in, and the home is the volume's for every
program of the container."""

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.contract.volumes import DesiredVolume
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.registry import LAUNCHERS
from agents.runtime.docker_recipe import ContainerRecipe
from agents.runtime.grants import no_grant
from agents.runtime.injection import Injection
from agents.workspace.workspaces import Workspaces
from tests.unit.agents.documents import a_replica

CODE = ("code-server", ".")
JUPYTER = ("jupyter", "lab")
HOMES = (DesiredVolume("homes", "scratch", "homes", "/homes", False),)
ELSEWHERE = (DesiredVolume("homes", "scratch", "homes", "/data", False),)


def started(name, command):
    replica = a_replica(launcher=name, command=command, volumes=(), rank=0, world=1)
    return LAUNCHERS[LauncherName(name)].command(Launch(replica, Rendezvous("127.0.0.1", 29_500)))


@pytest.mark.parametrize(
    ("command", "port"), [(CODE, "--port=8080"), (("code-server", "--port", "9001", "."), "")]
)
def test_no_variable_moves_code_server_to_another_address_or_port(command, port):
    """`PORT` and `CODE_SERVER_HOST` win against its `--bind-addr`, and lose against these."""
    words = started("code-server", command)
    assert "--host=127.0.0.1" in words
    assert not any(word.startswith("--bind-addr") for word in words)
    assert [word for word in words if word.startswith("--port=")] == ([port] if port else [])


@pytest.mark.parametrize("option", ["--cert", "--cert=x", "--socket-fd=3", "--host=0.0.0.0"])
def test_code_server_speaks_plain_http_where_the_portal_looks_for_it(option):
    request = LaunchRequest(("code-server", option))
    refusal = LAUNCHERS[LauncherName.CODE_SERVER].request_refusal(request)
    assert refusal and refusal.field == "command"


def test_rstudio_behind_jupyter_is_reached_by_its_user_alone():
    """Its proxy starts it without a password; before 2.4 at all addresses of the container."""
    launch = Launch(a_replica(launcher="jupyter"), Rendezvous("127.0.0.1", 29_500))
    environment = LAUNCHERS[LauncherName.JUPYTER].environment(launch)
    assert environment["JUPYTER_RSESSION_PROXY_USE_SOCKET"] == "true"


@pytest.mark.parametrize(
    ("launcher", "volumes", "home"),
    [
        ("jupyter", HOMES, "/homes/nora"),
        ("code-server", HOMES, "/homes/nora"),
        ("jupyter", ELSEWHERE, "/workspace"),
        ("jupyter", (), "/workspace"),
        ("none", HOMES, "/workspace"),
    ],
)
def test_programs_that_ask_for_their_home_by_the_user_find_that_of_the_volume(
    tmp_path, launcher, volumes, home
):
    """RStudio Server takes HOME of its sessions from there, and from nowhere else."""
    workspaces = Workspaces(tmp_path / "work")
    recipe = ContainerRecipe("n", NodePolicy(), Injection("nvidia"), no_grant, workspaces)
    replica = a_replica(launcher=launcher, volumes=volumes, user="nora")
    recipe.make_workspace(replica)
    passwd = workspaces.account_files(replica.id)[0].read_text().splitlines()
    name, *_, found, _ = passwd[1].split(":")
    assert (name, found) == ("nora", home)
