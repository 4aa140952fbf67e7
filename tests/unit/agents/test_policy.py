"""The node's own rules hold whatever the portal asks, and a bad file stops the agent."""

import os
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from agents.admission.policy import NodePolicy, PolicyError, read_policy
from agents.contract.documents import Device, RuntimeKind, SliceKind
from agents.contract.environment import RESERVED_NAMES, RESERVED_PREFIXES
from agents.contract.git_source import DesiredGitCode
from tests.unit.agents.documents import a_replica

DOCKER, PROCESS = RuntimeKind.DOCKER, RuntimeKind.PROCESS
OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


@pytest.fixture
def file(tmp_path):
    """Write a policy file; its mode is that of a root-owned one."""

    def write(text, mode=0o644):
        path = tmp_path / "policy.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    return write


def why_not(path):
    with pytest.raises(PolicyError) as caught:
        read_policy(path)
    sentence = str(caught.value)
    assert sentence.startswith(str(path)), "the sentence names the file"
    assert "\n" not in sentence
    return sentence.removeprefix(str(path))


@pytest.mark.parametrize(
    ("patterns", "image", "allowed"),
    [
        (("*",), "anything/at:all", True),
        (("registry.local/*",), "registry.local/team/train:1", True),
        (("registry.local/*",), "registry.local.evil.org/train:1", False),
        (("registry.local/*",), "REGISTRY.LOCAL/train:1", False),
        (("registry.local/*",), "evil.org/registry.local/train:1", False),
        (("a/*", "b/train:?"), "b/train:1", True),
        (("a/*", "b/train:?"), "b/train:10", False),
        ((), "anything", False),
    ],
)
def test_only_images_of_the_list_run(patterns, image, allowed):
    refusal = NodePolicy(images=patterns).refusal(a_replica(image=image), DOCKER)
    assert (refusal == "") is allowed
    assert allowed or image in refusal


@pytest.mark.parametrize("name", sorted([*RESERVED_NAMES, *(p + "X" for p in RESERVED_PREFIXES)]))
def test_reserved_environment_names_are_refused(name):
    assert "reserved" in NodePolicy().refusal(a_replica(env={"SEED": "1", name: "x"}), DOCKER)


@pytest.mark.parametrize("name", ["LD_PRELOAD=/tmp/x.so", "RANK=9", "", "A B", "1A", "A\n", "Ä"])
def test_a_name_that_no_shell_would_take_cannot_smuggle_another_in(name):
    assert "not a valid environment name" in NodePolicy().refusal(
        a_replica(env={name: "x"}), DOCKER
    )


@pytest.mark.parametrize("name", ["SEED", "_x", "MY_RANK", "NVIDIA", "PETS", "OMP_NUM_THREADS"])
def test_other_environment_names_are_the_users(name):
    assert NodePolicy().refusal(a_replica(env={name: "x"}), DOCKER) == ""


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({"cpu_milli": 2_000, "memory_mib": 512}, True),
        ({"cpu_milli": 2_001, "memory_mib": 512}, False),
        ({"cpu_milli": 2_000, "memory_mib": 513}, False),
    ],
)
def test_limits_hold_at_their_edge(fields, allowed):
    policy = NodePolicy(max_cpu_milli=2_000, max_memory_mib=512)
    assert (policy.refusal(a_replica(**fields), DOCKER) == "") is allowed


def test_the_process_runtime_can_be_forbidden():
    policy = NodePolicy(allow_process_runtime=False)
    assert "process runtime" in policy.refusal(a_replica(), PROCESS)
    assert policy.refusal(a_replica(), DOCKER) == ""
    assert NodePolicy().refusal(a_replica(), PROCESS) == ""


def test_without_a_file_the_defaults_hold():
    assert read_policy(None) == NodePolicy()


def test_an_empty_file_is_the_defaults(file):
    assert read_policy(file("")) == NodePolicy()


def test_a_file_changes_what_it_names(file):
    path = file('images = ["a/*"]\nmax_cpu_milli = 5\nnetwork = "host"\non_lease_end = "keep"\n')
    expected = NodePolicy(images=("a/*",), max_cpu_milli=5, network="host", on_lease_end="keep")
    assert read_policy(path) == expected


def test_jobs_of_a_project_have_a_user_of_their_own_on_every_node():
    mine, again, other = (a_replica(project=name) for name in ("vision", "vision", "speech"))
    user = NodePolicy().user_of(mine)
    assert 1_900_000_000 <= user <= 2_099_999_999
    assert NodePolicy().user_of(again) == user != NodePolicy().user_of(other)
    assert NodePolicy(project_users="5000-5000").user_of(mine) == 5_000
    assert NodePolicy(project_users="off", user=7).user_of(mine) == 7
    share = Device("a-1", "s-1", SliceKind.MPS, "GPU-1", threads=10, memory_mib=100)
    assert NodePolicy(user=7).user_of(a_replica(project="vision", devices=(share,))) == 7


def test_a_file_that_names_one_user_has_that_user_for_all(file):
    assert read_policy(file("user = 1234")).user_of(a_replica(project="vision")) == 1_234
    both = read_policy(file('user = 1234\nproject_users = "5000-5000"'))
    assert both.user_of(a_replica(project="vision")) == 5_000


def test_the_example_in_the_operations_page_is_whole_and_can_be_read(file):
    example = OPERATIONS.read_text("utf-8").split("```toml\n")[1].split("```")[0]
    assert set(tomllib.loads(example)) == {field.name for field in fields(NodePolicy)}
    read_policy(file(example))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("images = [", "cannot be read"),
        (b"images = ['\xff']", "cannot be read"),
        ("image = ['a']\ncpus = 1", "unknown keys cpus, image"),
        ("images = 'a/*'", "images must be a list of strings"),
        ("images = ['a', 1]", "images must be a list of strings"),
        ("accepted_checks = 'runc'", "accepted_checks must be a list of strings"),
        ("max_cpu_milli = '4'", "max_cpu_milli must be of type int"),
        ("max_memory_mib = 4.5", "max_memory_mib must be of type int"),
        ("pids = true", "pids must be of type int"),
        ("user = 'root'", "user must be of type int"),
        ("user = -1", "user must not be below 0"),
        ("project_users = '5'", 'project_users must be "off" or a range'),
        ("project_users = '0-9'", "project_users must rise, from 1000"),
        ("project_users = '9000-8000'", "project_users must rise"),
        ("allow_process_runtime = 0", "allow_process_runtime must be of type bool"),
        ("network = 'bridge'", "network must be one of job, host"),
        ("on_lease_end = 'stpo'", "on_lease_end must be one of stop, keep"),
        ("device_injection = 'hook'", "device_injection must be one of auto, runtime, cdi, nvidia"),
        ("may_reset_gpus = 1", "may_reset_gpus must be of type bool"),
        ("nvidia_ctk = 'nvidia-ctk'", "nvidia_ctk must be an absolute path"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(file, text, why):
    assert why in why_not(file(text))


def test_a_file_that_is_not_there_is_refused_in_one_sentence(tmp_path):
    assert "cannot be read" in why_not(tmp_path / "none.toml")


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_not_trusted(file, mode):
    assert "chmod go-w" in why_not(file("", mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_root_agent_trusts_only_roots_file(file):
    path = file("")
    os.chown(path, 65_534, 65_534)
    assert "chown root" in why_not(path)


GIT = "git+https://git.example:8443/app.git@main"


@pytest.mark.parametrize(
    ("hosts", "code", "why"),
    [
        (("git.example:8443",), DesiredGitCode(GIT), ""),
        (("git.example",), DesiredGitCode(GIT), "does not allow code from git.example:8443"),
        ((), DesiredGitCode(GIT), "does not allow code from git.example:8443"),
        (("git.example:8443",), DesiredGitCode("git+https://127.0.0.1/a"), "not reached"),
        (("git.example:8443",), DesiredGitCode("git+ext::sh -c id"), "write git+https"),
        (("git.example:8443",), DesiredGitCode(GIT, key="KEY"), "KEY is not one for git"),
    ],
)
def test_code_of_a_repository_comes_from_hosts_of_the_list_alone(hosts, code, why):
    refusal = NodePolicy(git_hosts=hosts).refusal(a_replica(code_git=code), DOCKER)
    assert why in refusal
    assert bool(why) == bool(refusal)


@pytest.mark.parametrize(
    "line",
    [
        'git_hosts = ["*"]',
        'git_hosts = ["https://git.example"]',
        'git_hosts = ["localhost"]',
        'git_hosts = ["127.0.0.1"]',
        'git_hosts = "git.example"',
        'git_ca_file = "ca.pem"',
    ],
)
def test_a_list_of_git_hosts_that_cannot_be_meant_stops_the_agent(file, line):
    assert line.split()[0] in why_not(file(line))


def test_git_hosts_are_none_by_default_and_read_from_the_file(file):
    assert NodePolicy().git_hosts == ()
    assert read_policy(file('git_hosts = ["git.example:8443"]')).git_hosts == ("git.example:8443",)
