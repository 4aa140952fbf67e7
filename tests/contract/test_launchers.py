"""Every launcher of the contract has its file, keeps the rules of the room, and is offered wherever
a request is made."""

from pathlib import Path

import pytest
from django.utils.translation import override

import agents.launchers
from agents.contract.codec import decode, encode
from agents.contract.documents import DesiredReplica, NodeFacts, Rendezvous
from agents.contract.environment import is_environment_name, is_reserved
from agents.contract.launcher_names import FIRST_LAUNCHERS, LauncherName
from agents.hardware import Hardware
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.launch import replica_environment
from agents.launchers.registry import LAUNCHERS, SEVERAL, launch_refusal, processes_refusal
from agents.launchers.request_file import read_request
from agents.nvml.session import Nvml
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.workspace.folders import IN_CONTAINER
from portal.api.jobs.submit_serializer import JobSubmitRequestSerializer
from portal.web.request.choices import choice_labels
from scheduler.core.request import RequestLimits, parse_request, request_as_dict
from scheduler.core.request_fields import BY_NAME
from tests.support.chinese import in_chinese
from tests.support.memory_runtime import MemoryRuntime
from tests.unit.agents.documents import a_replica
from tests.unit.cli.fake_rest import Rest, a_row

FILES = Path(agents.launchers.__file__).parent
# What is no launcher there.
SHARED = {"__init__", "__main__", "base", "launch", "nested", "preview", "registry"}
SHARED |= {
    "command_options",
    "deepspeed_config",
    "endpoints",
    "hostfile",
    "model_servers",
    "notebook_servers",
    "ray_gang",
    "request_file",
}
SHARED |= {"python_program", "request_file"}
SHARED |= {"openmpi_gang", "pair_rounds", "ring_all_reduce"}
MEETING = Rendezvous("10.0.0.1", 29_500, ("10.0.0.1", "10.0.0.2"))
EVERY = pytest.mark.parametrize("name", LauncherName)
COMMAND = ("python", "train.py", "--lr", "1e-4")
REQUEST = {"project": "p", "name": "n", "image": "i", "command": list(COMMAND)}


def a_launch(**fields):
    replica = a_replica(**{"processes": 1, "rank": 1, "world": 2} | fields)
    return Launch(replica, MEETING)


def own_request(name):
    """One that this launcher starts."""
    golden = Path(__file__).parents[1] / "unit" / "agents" / "launchers" / "golden" / f"{name}.yaml"
    return read_request(golden) if golden.exists() else {"command": list(COMMAND)}


def request_command(name):
    return tuple(own_request(name)["command"])


def own_environment(name):
    return LAUNCHERS[name].environment(a_launch(launcher=name))


def test_every_launcher_has_the_file_of_its_name_and_every_file_is_one():
    names = {path.stem for path in FILES.glob("*.py")} - SHARED
    assert names == {name.replace("-", "_") for name in LauncherName}
    assert all(LAUNCHERS[name].name is name for name in LauncherName)


@EVERY
def test_its_variables_are_texts_that_no_user_may_set(name):
    env = own_environment(name)
    own = LAUNCHERS[name].variables
    assert all(is_environment_name(key) and (is_reserved(key) or key in own) for key in env), env
    for variable in own:
        refusal = launch_refusal(name, LaunchRequest(request_command(name), {variable: "x"}))
        assert refusal and refusal.field == f"env.{variable}"
        assert not launch_refusal(LauncherName.NONE, LaunchRequest(COMMAND, {variable: "x"}))
    assert {type(value) for value in env.values()} <= {str}
    launch = a_launch(launcher=name)
    whole = replica_environment(launch.replica, (), MEETING, IN_CONTAINER)
    assert whole.items() >= env.items()
    # Two that set the same would hide which one counts.
    assert not whole.keys() & LAUNCHERS[name].sets


@EVERY
@pytest.mark.parametrize("command", [COMMAND, ("./train.sh", "a b"), ("python", "-u", "t.py")])
def test_the_users_program_is_in_the_command_word_for_word(name, command):
    # Of some launchers rank 0 starts all processes.
    words = LAUNCHERS[name].command(a_launch(launcher=name, command=command, rank=0))
    arguments = list(command[1:])
    assert words[-len(arguments) :] == arguments
    assert words[0] and all(type(word) is str for word in words)


@EVERY
def test_without_a_command_the_image_decides(name):
    assert LAUNCHERS[name].command(a_launch(launcher=name, command=())) == []


@EVERY
def test_its_files_have_constant_names_without_folders(name):
    names = []
    for rank in (0, 1):
        files = LAUNCHERS[name].files(a_launch(launcher=name, rank=rank))
        assert all(Path(file).name == file and type(text) is str for file, text in files.items())
        elsewhere = Launch(a_replica(launcher=name, rank=rank), Rendezvous("10.9.9.9", 1))
        assert LAUNCHERS[name].files(elsewhere).keys() == files.keys()
        names.append(set(files))
    whole = replica_environment(a_launch(launcher=name).replica, (), MEETING, IN_CONTAINER)
    assert (whole.get("TESSERA_LAUNCHER_DIR") == "/launcher") is bool(names[1])


@EVERY
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_the_processes_that_it_starts_by_default_are_ones_that_it_can_start(name, gpus):
    processes = LAUNCHERS[name].default_processes(gpus)
    assert 1 <= processes <= max(gpus, 1)
    assert not processes_refusal(name, processes)
    assert bool(processes_refusal(name, 2)) is not LAUNCHERS[name].starts_several
    device = {"gpus": gpus} if gpus else {"mig": "1g.10gb"}
    asked = {"device": device, "launcher": name, "command": list(request_command(name))}
    request = parse_request(REQUEST | asked, RequestLimits())
    assert (request.launcher, request.processes) == (name, processes)
    assert request_as_dict(request)["launcher"] == str(name)


@EVERY
def test_the_wire_carries_it(name):
    replica = DesiredReplica("r-1", "j-1", launcher=name)
    assert decode(DesiredReplica, encode(replica)).launcher is name


@EVERY
def test_the_form_offers_it_with_words_in_both_languages(name):
    english, chinese = {}, {}
    for language, labels in (("en", english), ("zh-hans", chinese)):
        with override(language):
            labels |= {value: str(label) for value, label in choice_labels(BY_NAME["launcher"])}
    summary = LAUNCHERS[name].summary
    assert english[name] == f"{name}: {summary}"
    assert in_chinese(summary, "", 1) != summary and in_chinese(summary, "", 1) in chinese[name]


@EVERY
def test_the_schema_of_rest_offers_it(name):
    field = JobSubmitRequestSerializer().fields["launcher"]
    assert name in field.choices


SUBMIT = ("submit", "-p", "vision", "--image", "i", "--gpus", "1", "--yes", "--detach")


@EVERY
def test_the_command_line_sends_it(name):
    rest = Rest().on("POST", "jobs", a_row())
    assert rest.run(*SUBMIT, "--launcher", str(name), "--", *COMMAND).exit_code == 0
    assert rest.body("POST", "jobs")["launcher"] == str(name)


@EVERY
def test_a_slurm_script_of_several_tasks_can_choose_it(name, tmp_path):
    """Its tasks are processes of the launcher for several, unless the command line says another."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --ntasks-per-node=2\nsrun python train.py\n")
    rest = Rest().on("POST", "jobs", a_row())
    assert rest.run(*SUBMIT, "--file", str(script)).exit_code == 0
    assert rest.body("POST", "jobs")["launcher"] == str(SEVERAL)
    done = rest.run(*SUBMIT, "--launcher", str(name), "--file", str(script))
    assert done.exit_code == 0
    body = rest.body("POST", "jobs")
    assert (body["launcher"], body["processes"]) == (str(name), 2)


def test_an_agent_reports_the_launchers_that_it_has(tmp_path):
    store = Store(tmp_path / "driver.json")
    store.create(new_node(board="A30-24GB", gpus=1, seed=7, latency=False))
    install(store.path)
    nvml = Nvml()
    try:
        hardware = Hardware(nvml, MemoryRuntime(dict), tmp_path, simulated=True)
        assert hardware.facts.launchers == tuple(LauncherName)
    finally:
        nvml.close()
        uninstall()


def test_a_portal_of_before_understands_an_agent_without_new_launchers():
    assert "launchers" not in encode(NodeFacts(launchers=FIRST_LAUNCHERS))
    newer = NodeFacts(launchers=(*FIRST_LAUNCHERS, "of.a-newer_agent"))
    assert decode(NodeFacts, encode(newer)) == newer
