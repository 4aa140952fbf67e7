"""Templates of the demonstration: each really runs there, in Docker or as plain processes."""

import sys

from portal.catalogue.ready_templates import ReadyTemplate, ready_templates_add
from portal.demo.example import PROGRAM
from portal.demo.runtime_choice import IMAGE
from portal.submission.limits import request_limits

SHOW_DEVICE = (
    "import os; [print(name, '=', os.environ.get(name, '')) for name in "
    "('TESSERA_DEVICES', 'CUDA_VISIBLE_DEVICES', 'RANK', 'WORLD_SIZE', 'MASTER_ADDR')]"
)
TRAIN = (
    "import time; [(print(f'epoch {n} of 60: loss {2 / n ** 0.5:.3f}', flush=True), time.sleep(2)) "
    "for n in range(1, 61)]"
)
FAIL = "import time; print('reading the data', flush=True); time.sleep(3); open('/data/train.csv')"


def add_demo_templates(runtime: str) -> None:
    """Save them on the first start. `runtime` is that of the nodes, "docker" or "process"."""
    in_image = runtime == "docker"
    python = "python3" if in_image else sys.executable
    program = f"/examples/{PROGRAM.name}" if in_image else str(PROGRAM)
    ready_templates_add(limits=request_limits(), templates=_templates(python, program))


def _templates(python: str, program: str) -> tuple[ReadyTemplate, ...]:
    return (
        _template(
            "A first look at a slice",
            "The smallest slice. Prints the variables that tell a program its devices and peers.",
            {"name": "show-device", "command": [python, "-c", SHOW_DEVICE]},
            {"memory": "4GiB"},
        ),
        _template(
            "Distributed sum",
            "Two replicas on a slice each sum a vector over TCP for half a minute, and check it.",
            {
                "name": "distributed-sum",
                "command": [python, program, "--seconds", "30"],
                "replicas": 2,
                "topology": "any",
            },
            {"mig": "2g.35gb"},
        ),
        _template(
            "Two minutes of training",
            "A whole GPU. Prints a falling loss every 2 s: follow its log, extend it, stop it.",
            {"name": "train", "command": [python, "-c", TRAIN]},
            {"gpus": 1},
        ),
        _template(
            "Failing job",
            "Opens a file that does not exist: see how a failure is explained, and run it again.",
            {"name": "fails", "command": [python, "-c", FAIL]},
            {"memory": "4GiB"},
        ),
    )


def _template(
    name: str, description: str, request: dict[str, object], device: dict[str, object]
) -> ReadyTemplate:
    fixed = {"image": IMAGE, "time_limit": "10m", "device": device}
    return ReadyTemplate(name, description, fixed | request)
