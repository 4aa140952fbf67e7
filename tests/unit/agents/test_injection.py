"""How devices get into containers is chosen by what the engine and the toolkit have."""

import pytest

from agents.admission.policy import NodePolicy
from agents.host.container_toolkit import CONFIG, ContainerToolkit, read_container_toolkit
from agents.host.files import FileTree
from agents.runtime.injection import Injection, InjectionPath, choose_injection

RUNTIME, CDI, REQUEST = InjectionPath.RUNTIME, InjectionPath.CDI, InjectionPath.REQUEST
ALL = {"Runtimes": {"runc": {}, "nvidia": {}}, "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}
ONLY_CDI = ALL | {"Runtimes": {"runc": {}}}
ONLY_HOOK = {"Runtimes": {"runc": {}}, "CDISpecDirs": []}
FULL = ContainerToolkit(has_hook=True, has_generator=True)
DEVICES = ["GPU-1", "MIG-2"]


def chosen(info=ALL, toolkit=FULL, **policy):
    return choose_injection(NodePolicy(**policy), info, toolkit)


def a_toolkit(**settings):
    return ContainerToolkit(**{"has_hook": True, "has_generator": True} | settings)


@pytest.mark.parametrize(
    ("info", "toolkit", "path"),
    [
        (ALL, FULL, RUNTIME),
        (ONLY_CDI, FULL, CDI),
        (ONLY_HOOK, FULL, REQUEST),
        ({}, FULL, REQUEST),
        # The toolkit ignores the variable that its runtime and its hook read.
        (ALL, a_toolkit(accepts_variable=False), CDI),
        # No file that the agent could write would be read, or nothing would write it.
        (ALL | {"Runtimes": {}, "CDISpecDirs": ["/run/cdi"]}, FULL, REQUEST),
        (ONLY_CDI, a_toolkit(has_generator=False), REQUEST),
        # With invalid settings the toolkit's runtime and hook refuse; CDI is the engine's own.
        (ALL, a_toolkit(is_valid=False), CDI),
    ],
)
def test_the_runtime_comes_first_then_cdi_then_the_device_request(info, toolkit, path):
    found = chosen(info, toolkit)
    assert (found.path, found.refusal) == (path, "")


def test_the_choice_names_what_was_passed_over():
    assert chosen().why == "the engine has the runtime nvidia, which needs no file"
    why = chosen(ONLY_HOOK).why
    assert "not runtime: the engine has no runtime nvidia" in why
    assert "not cdi: the engine reads no CDI files" in why


@pytest.mark.parametrize("path", InjectionPath)
def test_the_policy_fixes_it_even_where_it_cannot_work(path):
    found = chosen(device_injection=str(path))
    assert (found.path, found.refusal) == (path, "")
    assert "policy" in found.why
    lacking = chosen({}, ContainerToolkit(), device_injection=str(path))
    assert (lacking.path, bool(lacking.refusal)) == (path, True)


def test_where_nothing_works_every_reason_is_named():
    found = chosen({}, ContainerToolkit())
    assert found.path is REQUEST
    for words in ("no runtime nvidia", "reads no CDI files", "hook is not installed"):
        assert words in found.refusal


def test_the_hook_refuses_in_the_mode_cdi():
    found = chosen(ONLY_HOOK, a_toolkit(mode="cdi"))
    assert "mode cdi refuses its hook" in found.refusal


def test_a_file_is_needed_where_devices_are_looked_up_in_one():
    assert not chosen().needs_spec
    assert chosen(ONLY_CDI).needs_spec
    assert chosen(toolkit=a_toolkit(mode="cdi")).needs_spec
    assert not chosen(ONLY_HOOK).needs_spec


def test_each_way_asks_the_engine_in_its_own_words():
    assert Injection(RUNTIME).options(DEVICES) == {"runtime": "nvidia"}
    (cdi,) = Injection(CDI).options(DEVICES)["device_requests"]
    assert cdi["driver"] == "cdi"
    assert cdi["device_ids"] == ["nvidia.com/gpu=GPU-1", "nvidia.com/gpu=MIG-2"]
    assert "capabilities" not in cdi
    (hook,) = Injection(REQUEST).options(DEVICES)["device_requests"]
    assert (hook["driver"], hook["device_ids"]) == ("nvidia", DEVICES)
    assert hook["capabilities"] == [["gpu"]]
    for path in InjectionPath:
        assert Injection(path).options([]) == {}
        assert Injection(path).environment([])["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_the_toolkit_is_read_from_its_settings_and_programs(tmp_path):
    files = FileTree(tmp_path)
    ctk = "/opt/nvidia/nvidia-ctk"
    assert read_container_toolkit(files, ctk) == ContainerToolkit()
    for path in ("/usr/bin/nvidia-container-runtime-hook", ctk, CONFIG):
        files.at(path).parent.mkdir(parents=True, exist_ok=True)
        files.at(path).touch()
    assert read_container_toolkit(files, ctk) == FULL
    files.at(CONFIG).write_text(
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
        '[nvidia-container-runtime]\nmode = "cdi"\n'
    )
    assert read_container_toolkit(files, ctk) == a_toolkit(accepts_variable=False, mode="cdi")
    files.at(CONFIG).write_text("mode = \n")
    assert read_container_toolkit(files, ctk) == a_toolkit(is_valid=False)
