"""A container that was cut off from its GPUs is noticed, and nothing else is taken for it."""

import subprocess
from types import SimpleNamespace

import pytest
from docker.errors import APIError, DockerException

from agents.health.lost_devices import INTERVAL_SECONDS, PROBE, DetachedProbe

WORDS = {  # of three shells
    "dash": b"sh: 1: cannot open /dev/nvidiactl: Operation not permitted\n",
    "bash": b"sh: line 1: /dev/nvidiactl: Operation not permitted\n",
    "busybox": b"sh: can't open /dev/nvidiactl: Operation not permitted\n",
}


class Box:
    """A container whose shell answers so."""

    def __init__(self, name="tessera-j-1-0", code=0, output=b"", gpus=True):
        self.name, self.code, self.output = name, code, output
        self.attrs = {"HostConfig": {"DeviceRequests": [{}] if gpus else None}}
        self.asked = 0

    def exec_run(self, cmd, *, environment):
        self.asked += 1
        assert cmd == list(PROBE) and environment == {"LC_ALL": "C"}
        if isinstance(self.output, Exception):
            raise self.output
        return SimpleNamespace(exit_code=self.code, output=self.output)


def seen(*boxes):
    probe = DetachedProbe(lambda: boxes)
    probe.run()
    return probe.sentences


@pytest.mark.parametrize("shell", WORDS)
def test_a_container_that_may_not_open_its_gpu_is_named(shell):
    (said,) = seen(Box("tessera-a-1-0"), Box("tessera-b-1-0", 2, WORDS[shell]))
    assert said.startswith("tessera-b-1-0 is cut off")


@pytest.mark.parametrize(
    "box",
    [
        Box(),
        Box(code=127, output=b'exec: "sh": executable file not found in $PATH'),
        Box(code=2, output=b"sh: cannot open /dev/nvidiactl: Permission denied"),
        Box(output=APIError("container is not running")),
    ],
)
def test_what_tells_nothing_is_no_warning(box):
    assert seen(box) == ()
    assert box.asked == 1


def test_a_container_without_gpus_is_not_asked():
    box = Box(gpus=False)
    assert seen(box) == () and box.asked == 0


def test_an_engine_that_does_not_answer_leaves_what_was_known():
    boxes = [Box(code=2, output=WORDS["dash"])]
    probe = DetachedProbe(lambda: boxes if boxes else (_ for _ in ()).throw(DockerException()))
    probe.run()
    known = probe.sentences
    boxes.clear()
    probe.run()
    assert probe.sentences == known != ()


def test_it_looks_once_a_minute():
    clock = SimpleNamespace(seconds=1_000.0)
    box = Box()
    probe = DetachedProbe(lambda: [box], now=lambda: clock.seconds)
    probe.run_when_due().join()
    assert probe.run_when_due() is None
    clock.seconds += INTERVAL_SECONDS
    probe.run_when_due().join()
    assert box.asked == 2


def test_the_question_is_one_that_a_real_shell_understands():
    assert subprocess.run(PROBE, check=False, capture_output=True).stderr == b""
