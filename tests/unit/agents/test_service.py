"""The service of systemd: what installing it checks, writes, runs, and leaves alone."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents.commands import install_service, uninstall_service
from agents.route.portal_route import PortalRoute
from agents.service.installation import InstallationFailed, ServiceInstallation
from agents.service.unit import NAME
from agents.settings import parser, settings_from
from tests.support.certificates import pair
from tests.support.unit_files import command_words, environment, unit_sections

UNIT = f"etc/systemd/system/{NAME}"
ENVIRONMENT = "etc/tessera/agent.env"
WANTED = f"etc/systemd/system/multi-user.target.wants/{NAME}"
TOKEN = "a-join-token"
PORTAL = ("--portal", "https://portal.example")
NAME_OF_NODE = ("--name", "gpu01")
ARGUMENTS = (*PORTAL, *NAME_OF_NODE)
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def only_the_tests_own_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("TESSERA_", "DOCKER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TESSERA_JOIN_TOKEN", TOKEN)


@pytest.fixture
def root(tmp_path):
    """The files of a machine that does not run."""
    folder = tmp_path / "machine"
    folder.mkdir()
    return folder


def install(root, *arguments):
    portal = () if "--portal" in arguments else PORTAL
    words = ["install-service", "--root", str(root), *portal, *NAME_OF_NODE, *arguments]
    return install_service.main(parser().parse_args(words))


def uninstall(root, *arguments):
    return uninstall_service.main(
        parser().parse_args(["uninstall-service", "--root", str(root), *arguments])
    )


def written(root):
    return {str(at.relative_to(root)) for at in root.rglob("*") if not at.is_dir()}


def run_options(root):
    """What `agents run` makes of the unit's command."""
    words = command_words(unit_sections((root / UNIT).read_text())["Service"]["ExecStart"])
    assert words[:3] == [sys.executable, "-m", "agents"]
    return parser().parse_args(words[3:])


def test_it_is_written_enabled_and_closed(root):
    assert install(root) == 0
    assert written(root) == {UNIT, ENVIRONMENT, WANTED}
    assert (root / WANTED).resolve() == root / UNIT
    assert (root / UNIT).stat().st_mode & 0o777 == 0o644
    assert (root / ENVIRONMENT).stat().st_mode & 0o777 == 0o600
    assert environment((root / ENVIRONMENT).read_text()) == {"TESSERA_JOIN_TOKEN": TOKEN}
    assert TOKEN not in (root / UNIT).read_text()


def test_jobs_and_shares_outlive_the_service_which_comes_after_the_engine(root):
    install(root)
    sections = unit_sections((root / UNIT).read_text())
    service = sections["Service"]
    assert (service["KillMode"], service["Delegate"], service["Restart"]) == (
        "process",
        "yes",
        "on-failure",
    )
    assert int(service["OOMScoreAdjust"]) < 0
    assert int(service["LimitNOFILE"]) >= 65_536
    after = set(sections["Unit"]["After"].split())
    assert {
        "docker.service",
        "nvidia-persistenced.service",
        "nvidia-fabricmanager.service",
    } <= after
    # A dependency would stop the agent with the engine.
    assert not {"Requires", "BindsTo", "PartOf"} & set(sections["Unit"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_accepts_the_unit(root):
    install(root, "--policy", str(a_policy(root)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(root / UNIT)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def a_policy(root, mode=0o644):
    path = root.parent / "the policy 100%.toml"
    path.write_text('images = ["registry.example/*"]\n')
    path.chmod(mode)
    return path


def test_the_service_runs_with_the_arguments_that_were_given(root, tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_METRICS", "[::1]:9400")
    policy = a_policy(root)
    given = ("--policy", str(policy), "--disk-folder", str(tmp_path), "--disk-reserve", "200GiB")
    seconds = ("--telemetry-seconds", "2.5")
    assert install(root, *given, *seconds, "--var", "/srv/agent") == 0
    monkeypatch.delenv("TESSERA_METRICS")
    settings = settings_from(run_options(root))
    assert settings == settings_from(
        parser().parse_args(
            ["run", *ARGUMENTS, *given, *seconds, "--var", "/srv/agent", "--metrics", "[::1]:9400"]
        )
    )


def test_a_service_speaks_plain_http_only_where_that_was_allowed(root):
    assert install(root, "--portal", "http://portal.example", "--allow-plain-http") == 0
    assert settings_from(run_options(root)).route.addresses == ("http://portal.example",)


def test_the_service_takes_the_same_way_to_the_portal(root, tmp_path, monkeypatch):
    """The proxy may have a password, which no unit and no list of processes shows."""
    authority, proxy = tmp_path / "ca.pem", "http://me:pass%20word$@proxy.example:3128"
    authority.write_text(pair("an authority").certificate)
    monkeypatch.setenv("TESSERA_PROXY", proxy)
    words = ("--portal", "https://b.example", *PORTAL, "--ca-file", str(authority))
    assert install(root, *words) == 0
    assert "proxy" not in (root / UNIT).read_text()
    monkeypatch.delenv("TESSERA_PROXY")
    for name, value in environment((root / ENVIRONMENT).read_text()).items():
        monkeypatch.setenv(name, value)
    addresses = ("https://b.example", "https://portal.example")
    assert settings_from(run_options(root)).route == PortalRoute(addresses, authority, proxy)


def test_relative_paths_become_absolute_for_the_service(root, monkeypatch):
    policy = a_policy(root)
    monkeypatch.chdir(policy.parent)
    assert install(root, "--policy", policy.name, "--var", "node") == 0
    options = run_options(root)
    assert (options.policy, options.var) == (policy, policy.parent / "node")


def test_a_second_run_changes_nothing_and_another_argument_only_the_unit(root):
    install(root)
    before = {name: (root / name).lstat().st_ino for name in written(root)}
    assert install(root) == 0
    assert {name: (root / name).lstat().st_ino for name in written(root)} == before
    assert install(root, "--telemetry-seconds", "5") == 0
    after = {name: (root / name).lstat().st_ino for name in written(root)}
    assert {name for name in after if after[name] != before[name]} == {UNIT}


def test_the_token_is_kept_until_the_node_has_enrolled(root, monkeypatch):
    install(root)
    monkeypatch.delenv("TESSERA_JOIN_TOKEN")
    assert install(root) == 0
    assert environment((root / ENVIRONMENT).read_text()) == {"TESSERA_JOIN_TOKEN": TOKEN}
    var = root / "var/lib/tessera-agent"
    var.mkdir(parents=True, mode=0o700)
    (var / "node-id").write_text("4f5d")
    assert install(root) == 0
    assert (root / ENVIRONMENT).read_text() == ""


@pytest.mark.parametrize("way", ["--dry-run", "--print"])
def test_it_can_be_shown_first_without_the_token(root, capsys, way):
    assert install(root, way) == 0
    shown = capsys.readouterr().out
    assert "ExecStart=" in shown and TOKEN not in shown
    assert written(root) == set()
    # Shown as it is written.
    install(root)
    assert (root / UNIT).read_text() in shown


def test_the_unit_can_be_printed_before_there_is_a_token(root, capsys, monkeypatch):
    monkeypatch.delenv("TESSERA_JOIN_TOKEN")
    assert install(root, "--print") == 0
    assert "ExecStart=" in capsys.readouterr().out


def refused(root, capsys, *arguments):
    """The sentence of a refusal that wrote nothing."""
    try:
        assert install(root, *arguments) == 1
        sentence = capsys.readouterr().err
    except SystemExit as ended:
        sentence = str(ended)
    assert not {UNIT, ENVIRONMENT, WANTED} & written(root)
    return sentence


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--portal", ""), "--portal URL"),
        (("--portal", "portal.example"), "is not the address of a portal"),
        (("--portal", "https://portal.example:port"), "is not the address of a portal"),
        (("--portal", "https://[portal"), "is not the address of a portal"),
        (("--portal", "http://portal.example"), "plain HTTP"),
        (("--policy", "/nowhere/policy.toml"), "/nowhere/policy.toml cannot be read"),
        (("--join-token-file", "/nowhere/token"), "/nowhere/token"),
        (("--stop-jobs-on-exit",), "for demonstrations"),
        (("--disk-folder", "/nowhere"), "create it"),
        (("--name", "two\nlines"), "characters that a unit cannot hold"),
    ],
)
def test_arguments_that_the_agent_would_refuse_are_refused_before_anything_is_written(
    root, capsys, arguments, why
):
    assert why in refused(root, capsys, *arguments)


def test_a_policy_that_others_can_write_is_refused(root, capsys):
    assert "chmod go-w" in refused(root, capsys, "--policy", str(a_policy(root, 0o666)))


def test_a_folder_that_others_can_read_is_refused(root, capsys):
    var = root / "var/lib/tessera-agent"
    var.mkdir(parents=True)
    var.chmod(0o755)
    assert f"sudo chmod 711 {var}" in refused(root, capsys)


def test_a_node_without_a_token_is_refused(root, capsys, monkeypatch):
    monkeypatch.delenv("TESSERA_JOIN_TOKEN")
    assert "set TESSERA_JOIN_TOKEN" in refused(root, capsys)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize(("owner", "mode"), [(1000, 0o755), (0, 0o775), (0, 0o757)])
def test_code_that_others_can_change_is_not_run_as_root(root, capsys, monkeypatch, owner, mode):
    checkout = root.parent / "checkout"
    checkout.mkdir()
    os.chown(checkout, owner, owner)
    checkout.chmod(mode)
    for code in (checkout, checkout / "below"):
        code.mkdir(exist_ok=True)
        monkeypatch.setattr(install_service, "_code_folder", lambda code=code: code)
        assert f"users other than root can change {checkout}, " in refused(root, capsys)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's folders are trusted")
def test_code_of_roots_in_a_sticky_folder_is_run(root, monkeypatch):
    checkout = root.parent / "sticky" / "checkout"
    checkout.mkdir(parents=True)
    checkout.parent.chmod(0o1777)
    monkeypatch.setattr(install_service, "_code_folder", lambda: checkout)
    assert install(root) == 0


class LiveInstallation(ServiceInstallation):
    """The running machine, with its files below a folder of the test."""

    is_live = True


class ServiceManager:
    """`ran`: its commands. `refusal`: why it refuses every command, if it does."""

    def __init__(self):
        self.ran, self.refusal = [], ""

    def __call__(self, *words):
        if self.refusal:
            raise InstallationFailed(self.refusal)
        self.ran.append(words)


@pytest.fixture
def manager(root, monkeypatch):
    """That of a running machine, with its files below a folder of the test."""
    (root / "run/systemd/system").mkdir(parents=True)
    manager = ServiceManager()
    installation = LiveInstallation(root, manager)
    for command in (install_service, uninstall_service):
        monkeypatch.setattr(command, "ServiceInstallation", lambda _root: installation)
    return manager


@pytest.fixture
def process_runtime(monkeypatch):
    monkeypatch.setenv("TESSERA_RUNTIME", "process")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="installing needs root")


@needs_root
def test_a_running_machine_starts_it_and_a_second_run_does_not_touch_it(
    root, manager, process_runtime
):
    ran = manager.ran
    assert install(root) == 0
    assert ran == [("daemon-reload",), ("enable", NAME), ("restart", NAME)]
    ran.clear()
    assert install(root) == 0
    assert ran == [("enable", NAME), ("start", NAME)]
    ran.clear()
    assert install(root, "--no-start", "--telemetry-seconds", "5") == 0
    assert ran == [("daemon-reload",), ("enable", NAME)]
    ran.clear()
    assert uninstall(root) == 0
    assert ran == [("disable", "--now", NAME), ("daemon-reload",)]
    assert written(root) == set()


@needs_root
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_engine_that_is_not_up_is_refused_with_what_to_do(root, capsys, manager, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{root}/no.sock")
    assert "sudo systemctl start docker" in refused(root, capsys)
    assert manager.ran == []
    gc.collect()  # the socket that the SDK leaks when it is refused, while we ignore it


def test_a_machine_without_systemd_is_refused_with_the_command_for_its_own_supervisor(
    root, capsys, manager, process_runtime
):
    (root / "run/systemd/system").rmdir()
    sentence = refused(root, capsys)
    assert "no /run/systemd/system" in sentence
    assert "-m agents run --portal https://portal.example --name gpu01" in sentence
    assert manager.ran == []


def test_without_root_it_is_refused(root, capsys, manager, process_runtime, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "it needs root" in refused(root, capsys)


@needs_root
def test_what_systemctl_refuses_is_shown_and_can_be_repeated(
    root, capsys, manager, process_runtime
):
    manager.refusal = "systemctl ended with 1: Failed to connect to bus"
    assert install(root) == 1
    assert "Failed to connect to bus" in capsys.readouterr().err
    manager.refusal = ""
    assert install(root) == 0
    assert manager.ran[-1] == ("start", NAME)


def test_uninstalling_removes_what_was_written_and_keeps_the_agents_folder(root, capsys):
    install(root)
    var = root / "var/lib/tessera-agent"
    var.mkdir(parents=True)
    (var / "key").touch()
    assert uninstall(root, "--dry-run") == 0
    assert written(root) == {UNIT, ENVIRONMENT, WANTED, "var/lib/tessera-agent/key"}
    assert uninstall(root) == 0
    assert written(root) == {"var/lib/tessera-agent/key"}
    capsys.readouterr()
    assert uninstall(root) == 0
    assert "is not installed" in capsys.readouterr().out


def test_the_command_exists_without_the_tests(root):
    """As a person runs it."""
    command = [sys.executable, "-m", "agents", "install-service", "--root", str(root), *ARGUMENTS]
    env = {"PATH": os.environ["PATH"], "TESSERA_JOIN_TOKEN": TOKEN}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert written(root) == {UNIT, ENVIRONMENT, WANTED}
