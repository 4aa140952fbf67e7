"""Which command lines the level `use` refuses, by the words alone; nothing is started here."""

import subprocess
import sys

import pytest

from agents.doctor.machine import ProbeCommand
from tests.gpu.environment import ROOT
from tests.gpu.use.programs_guard import reason

READING = (
    "nvidia-smi -q -x",
    "nvidia-smi -L",
    "nvidia-smi -i 0 -L",
    "nvidia-smi -i GPU-00000000-0000-0000-0000-000000000000 -L",
    "nvidia-smi topo -m",
    "nvidia-smi mig -lgip",
    "nvidia-smi mig -lgipp",
    "nvidia-smi mig -lgi -i 0",
    "nvidia-smi --query-gpu=uuid,clocks.sm --format=csv,noheader",
    "nvidia-smi --version",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-control -d",
    "/usr/bin/nvidia-cuda-mps-control -f",
    "ncu --clock-control none --launch-count 1 python3 work.py",
    "python3 -m tests.gpu.use.row 1 out.json",
    "python3 exec_as_user.py 65534 /tmp/shm /usr/bin/nvidia-cuda-mps-control -d",
)
CHANGING = (
    "nvidia-smi --gpu-reset",
    "nvidia-smi -r",
    "nvidia-smi -i 0 -r",
    "nvidia-smi -mig 1",
    "nvidia-smi -i 0 -mig 0",
    "nvidia-smi -pm 1",
    "nvidia-smi --persistence-mode=1",
    "nvidia-smi -c 3",
    "nvidia-smi -e 0",
    "nvidia-smi --ecc-config=0",
    "nvidia-smi -p 0",
    "nvidia-smi -pl 300",
    "nvidia-smi -ac 1593,1410",
    "nvidia-smi -lgc 300,1200",
    "nvidia-smi --lock-gpu-clocks=300,1200",
    "nvidia-smi -lmc 1593",
    "nvidia-smi -rgc",
    "nvidia-smi -am 1",
    "nvidia-smi -q -r",
    "nvidia-smi -i -r",
    "nvidia-smi -q -f /etc/passwd",
    "nvidia-smi mig -cgi 9 -C",
    "nvidia-smi mig -dci",
    "nvidia-smi mig -dgi -i 0",
    "nvidia-smi mig -lgip -dgi",
    "nvidia-smi topo -m -r",
    "nvidia-smi drain -p 0000:18:00.0 -m 1",
    "nvidia-smi nvlink -e",
    "nvidia-smi boost-slider -l",
    "/opt/nvidia/bin/nvidia-smi -r",
    "nvidia-cuda-mps-control -multiuser",
    "nvidia-persistenced --persistence-mode",
    "nvidia-settings -a GPUPowerMizerMode=1",
    "nvidia-modprobe -u",
    "nvidia-ctk cdi generate",
    "dcgmi config --set",
    "nv-hostengine",
    "ncu python3 work.py",
    "ncu --clock-control base python3 work.py",
    "ncu --clock-control none --clock-control base python3 work.py",
    "ncu --clock-control none nvidia-smi -r",
    "ncu --clock-control none python3 wrapper.py nvidia-persistenced",
    "ncu --clock-control none sh -c true",
    "systemctl restart nvidia-fabricmanager",
    "systemctl stop nvidia-persistenced",
    "sh -c nvidia-smi",
    "bash -c true",
    "sudo nvidia-smi -L",
    "env nvidia-smi -r",
    "python3 exec_as_user.py 0 /tmp/shm nvidia-smi -r",
    "python3 wrapper.py nvidia-persistenced",
    "rmmod nvidia",
    "",
)
# Written as a program of its own: an audit hook stays for as long as its process.
TRIES = """
import os, subprocess, sys
from tests.gpu import guard
from tests.gpu.use import programs_guard
programs_guard.close()
def attempt(call):
    try:
        call()
    except guard.Forbidden:
        return "refused"
    except Exception as error:
        return f"tried: {error!r}"
    return "done"
words = ["nvidia-smi", "-r"]
print(attempt(lambda: subprocess.run(words)))
print(attempt(lambda: subprocess.run("nvidia-smi -r", shell=True)))
print(attempt(lambda: subprocess.Popen(words, executable="/usr/bin/true")))
print(attempt(lambda: subprocess.Popen(["true", "-r"], executable="/usr/bin/nvidia-smi")))
print(attempt(lambda: os.system("nvidia-smi -r")))
print(attempt(lambda: os.posix_spawn("/usr/bin/nvidia-smi", words, {})))
print(attempt(lambda: os.execv("/usr/bin/nvidia-smi", words)))
print(attempt(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
print(len(guard.refused))
"""


@pytest.mark.parametrize("line", READING)
def test_what_only_reads_passes(line):
    assert reason(line.split()) == ""


@pytest.mark.parametrize("line", CHANGING)
def test_what_could_change_a_gpu_is_refused(line):
    assert reason(line.split()) != ""


@pytest.mark.parametrize("command", list(ProbeCommand))
def test_the_agents_preflight_passes(command):
    assert reason(command.value) == ""


def test_no_way_to_start_a_program_goes_past_it():
    done = subprocess.run(
        [sys.executable, "-c", TRIES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == [*["refused"] * 7, "done", "7", ""]
