"""The options of `tessera submit` by group, and the request fields that they set."""

from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument, Option

from portal.cli.request_builder import (
    binary_memory,
    device_from_flags,
    environment_from_flags,
    parse_time_limit,
    retries_from_flags,
)

Texts = list[str] | None
DEVICE, WHERE, WHEN, AFTER = "The device", "Where it runs", "When it runs", "After submitting"

# What to run.
Command = Annotated[Texts, Argument(help="-- COMMAND..., or a script with an #SBATCH header")]
File = Annotated[
    str, Option("--file", "-f", help="YAML or a script with an #SBATCH header; - is stdin")
]
Project = Annotated[str, Option("--project", "-p", help="default: TESSERA_PROJECT")]
Name = Annotated[str, Option("--name", "-J", "--job-name", help="name of the job")]
Image = Annotated[str, Option("--image", "-i", help="container image; default: TESSERA_IMAGE")]
Kind = Annotated[str, Option(help="batch, notebook or service")]
Nodes = Annotated[
    int | None, Option("--nodes", "--replicas", "-N", help="replicas, which start together")
]
Launcher = Annotated[str, Option(help="starts the processes, e.g. torchrun; default: none")]
Processes = Annotated[
    int | None, Option("--processes", "--ntasks-per-node", help="processes per replica")
]
Cpu = Annotated[str, Option("--cpu", "--cpus-per-task", "-c", help="cores per replica, e.g. 8")]
Memory = Annotated[str, Option("--memory", "--mem", help="memory per replica, e.g. 64GiB")]
Shm = Annotated[str, Option(help="shared memory per replica, e.g. 16GiB")]
Backend = Annotated[str, Option(help="auto, nccl or gloo")]
Disk = Annotated[str, Option(help="local disk per replica, e.g. 200GiB")]
Env = Annotated[
    Texts, Option("--env", "-e", help="NAME=VALUE, or NAME to pass on its value; repeatable")
]

# The device.
Gpus = Annotated[int | None, Option("--gpus", "-g", help="whole GPUs", rich_help_panel=DEVICE)]
Mig = Annotated[
    str, Option("--mig", "--profile", help="MIG profile, e.g. 2g.35gb", rich_help_panel=DEVICE)
]
Mps = Annotated[
    str, Option(help="MPS share as percent:memory, e.g. 25:20GiB", rich_help_panel=DEVICE)
]
GpuMemory = Annotated[
    str,
    Option(help="any device with at least this much memory, e.g. 24GiB", rich_help_panel=DEVICE),
]
Model = Annotated[Texts, Option(help="GPU model, e.g. H200; repeatable", rich_help_panel=DEVICE)]
Isolation = Annotated[
    str, Option(help="hardware, or any to allow MPS shares", rich_help_panel=DEVICE)
]

# Where it runs.
Topology = Annotated[str, Option(help="best, same-node, nvlink or any", rich_help_panel=WHERE)]
Needs = Annotated[Texts, Option(help="required node label; repeatable", rich_help_panel=WHERE)]
Tolerates = Annotated[Texts, Option(help="tolerated node taint; repeatable", rich_help_panel=WHERE)]

# When it runs.
Time = Annotated[
    str, Option("--time", "-t", help="time limit: 4h or 4:00:00", rich_help_panel=WHEN)
]
Priority = Annotated[str, Option(help="low, normal or high", rich_help_panel=WHEN)]
Preemptible = Annotated[
    bool | None, Option(help="may be preempted by other jobs", rich_help_panel=WHEN)
]
Grace = Annotated[str, Option(help="grace period before SIGKILL, e.g. 30s", rich_help_panel=WHEN)]
Retries = Annotated[int | None, Option(help="retries after a node fault", rich_help_panel=WHEN)]
UserRetries = Annotated[
    int | None, Option(help="retries after a failure of the job itself", rich_help_panel=WHEN)
]
Begin = Annotated[str, Option(help="earliest start, e.g. +2h", rich_help_panel=WHEN)]
After = Annotated[
    Texts, Option(help="a job that must succeed first, e.g. J-12", rich_help_panel=WHEN)
]

# After submitting.
DryRun = Annotated[
    bool, Option("--dry-run", help="show what a submit would do", rich_help_panel=AFTER)
]
Yes = Annotated[bool, Option("--yes", "-y", help="do not ask to confirm", rich_help_panel=AFTER)]
Detach = Annotated[
    bool, Option("--detach", "-d", help="do not follow the job", rich_help_panel=AFTER)
]
Wait = Annotated[
    bool,
    Option(
        "--wait",
        "-W",
        help="wait for the end and exit with the job's exit code",
        rich_help_panel=AFTER,
    ),
]
Timeout = Annotated[
    float | None, Option(help="seconds to wait; then exit code 6", rich_help_panel=AFTER)
]
Key = Annotated[str, Option(help="idempotency key for safe retries", rich_help_panel=AFTER)]

# Options that set a request field as they are.
FIELDS = {
    "project": "project",
    "name": "name",
    "image": "image",
    "kind": "kind",
    "nodes": "replicas",
    "launcher": "launcher",
    "processes": "processes",
    "cpu": "cpu",
    "backend": "backend",
    "topology": "topology",
    "needs": "needs",
    "tolerates": "tolerates",
    "priority": "priority",
    "preemptible": "preemptible",
    "grace": "grace",
    "begin": "begin_at",
    "after": "after",
}


def request_fields(options: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """The request fields that these options set, without those that were not given.

    `options` are Click's parameters by name: a repeatable option is a tuple. Raises
    CommandFailed(usage).
    """
    options = {
        name: list(value) if isinstance(value, tuple) else value for name, value in options.items()
    }
    fields = {field: options[option] for option, field in FIELDS.items()} | {
        "memory": binary_memory(options["memory"]),
        "shm": binary_memory(options["shm"]),
        "disk": binary_memory(options["disk"]),
        "time_limit": parse_time_limit(options["time"]),
        "env": environment_from_flags(options["env"] or [], env),
        "retries": retries_from_flags(options["retries"], options["user_retries"]),
        "device": device_from_flags(
            gpus=options["gpus"],
            mig=options["mig"],
            mps=options["mps"],
            gpu_memory=options["gpu_memory"],
            models=options["model"],
            isolation=options["isolation"],
        ),
    }
    return {field: value for field, value in fields.items() if value not in (None, "", [], {})}
