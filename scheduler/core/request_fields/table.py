"""The rows of the table: every field of a request."""

from collections.abc import Iterable

from scheduler.core.request_fields.field import (
    DefaultRule,
    FieldGroup,
    FieldKind,
    RequestField,
)
from scheduler.core.request_fields.gang_fields import GANG_FIELDS

_WHAT, _DEVICE, _HOST = FieldGroup.WHAT, FieldGroup.DEVICE, FieldGroup.RESOURCES
_WHERE, _WHEN = FieldGroup.WHERE, FieldGroup.WHEN
_TEXT, _CHOICE, _COUNT, _SIZE = (
    FieldKind.TEXT,
    FieldKind.CHOICE,
    FieldKind.COUNT,
    FieldKind.SIZE,
)
_REQUIRED, _SHARED = DefaultRule.REQUIRED, DefaultRule.HOST_SHARE

# In the order of the stored form. Parts of `device` and `retries` stand together.
FIELDS: tuple[RequestField, ...] = (
    RequestField(
        *("project", _TEXT, _WHAT, "Project", "The project that the job belongs to.", _REQUIRED),
        flag_help="default: TESSERA_PROJECT",
        attribute="project",
        flags=("--project", "-p"),
    ),
    RequestField(
        *("name", _TEXT, _WHAT, "Name", "A name to find the job by.", _REQUIRED),
        attribute="name",
        flags=("--name", "-J", "--job-name"),
        directives=("--job-name",),
    ),
    RequestField(
        *("kind", _CHOICE, _WHAT, "Kind", "What the job is for.", "batch"),
        attribute="kind",
        choices=("batch", "notebook", "service"),
        flags=("--kind",),
    ),
    RequestField(
        *("image", _TEXT, _WHAT, "Image", "The container image.", _REQUIRED),
        attribute="image",
        flag_help="container image; default: TESSERA_IMAGE",
        example="registry/pytorch:2.7",
        flags=("--image", "-i"),
    ),
    RequestField(
        *("command", FieldKind.COMMAND, _WHAT, "Command"),
        "Quoted as in a shell, but run without one. For a pipe, write sh -c '…'.",
        default=DefaultRule.IMAGE_PROGRAM,
        attribute="command",
    ),
    RequestField(
        *("code", _TEXT, _WHAT, "Code"),
        "The id of a folder that tessera submit --sync has sent, or a git repository with a "
        "branch, a tag or a commit: git+https://host/team/project.git@main. The command starts in "
        "it; it is read-only.",
        default_text="none",
        attribute="code",
        example="git+https://git.example/team/project.git@main",
        flags=("--code",),
        is_optional_in_storage=True,
    ),
    RequestField(
        # Its choices are files of agents/launchers/.
        *("launcher", _CHOICE, _WHAT, "Launcher", "Starts the processes of a replica."),
        default="none",
        attribute="launcher",
        example="torchrun",
        flags=("--launcher",),
    ),
    RequestField(
        *("replicas", FieldKind.COUNT_RANGE, _DEVICE, "Replicas"),
        "Containers that start together, each with this amount of GPU; or the fewest and the most, "
        "such as 2-8, to start with as many as are free.",
        default=1,
        attribute="replicas",
        minimum=1,
        flags=("--nodes", "--replicas", "-N"),
        directives=("--nodes",),
    ),
    RequestField(
        *("processes", _COUNT, _WHAT, "Processes per replica"),
        "Processes that the launcher starts in each replica.",
        default=DefaultRule.LAUNCHER,
        attribute="processes",
        minimum=1,
        maximum=64,
        flags=("--processes", "--ntasks-per-node"),
        directives=("--ntasks-per-node",),
    ),
    RequestField(
        *("device.gpus", _COUNT, _DEVICE, "Whole GPUs per replica", "Used for whole GPUs only."),
        minimum=1,
        maximum=1_024,
        flags=("--gpus", "-g"),
        directives=("--gres", "--gpus-per-node"),
        input="gpus",
    ),
    RequestField(
        *("device.mig", _TEXT, _DEVICE, "MIG profile", "One slice of this MIG profile."),
        example="2g.35gb",
        flags=("--mig", "--profile"),
        directives=("--gres",),
        input="amount",
    ),
    RequestField(
        *("device.mps", FieldKind.SHARE, _DEVICE, "MPS share"),
        "A part of one GPU: percent of its threads, and memory.",
        example="25:20GiB",
        flags=("--mps",),
        input="threads",
    ),
    RequestField(
        *("device.memory", _SIZE, _DEVICE, "Minimum GPU memory"),
        "The cheapest device with enough memory is used.",
        example="24GiB",
        flags=("--gpu-memory",),
        input="device_memory",
    ),
    RequestField(
        *("device.models", FieldKind.WORDS, _DEVICE, "GPU models"),
        "Only these models, for example H200 A100.",
        default=(),
        default_text="any",
        flags=("--model",),
        input="models",
    ),
    RequestField(
        *("device.isolation", _CHOICE, _DEVICE, "Isolation"),
        "MPS shares are not isolated as slices are.",
        default="hardware",
        choices=("hardware", "any"),
        flags=("--isolation",),
        input="isolation",
    ),
    RequestField(
        *("cpu", FieldKind.CPU, _HOST, "CPU per replica"),
        "500m is half a core, 4 is four cores.",
        default=_SHARED,
        attribute="cpu_milli",
        example="8",
        flags=("--cpu", "--cpus-per-task", "-c"),
        directives=("--cpus-per-task",),
        spellings=("cpu_milli",),
    ),
    RequestField(
        *("memory", _SIZE, _HOST, "Memory per replica"),
        "Host memory, for example 8GiB. A replica that uses more is killed.",
        default=_SHARED,
        attribute="memory_mib",
        minimum=4,
        example="64GiB",
        flags=("--memory", "--mem"),
        directives=("--mem",),
        spellings=("memory_mib",),
    ),
    RequestField(
        *("shm", _SIZE, _HOST, "Shared memory per replica"),
        "For data loaders, for example 16GiB. It is a part of the memory.",
        default=DefaultRule.HALF_MEMORY,
        attribute="shm_mib",
        example="16GiB",
        flags=("--shm",),
        spellings=("shm_mib",),
    ),
    RequestField(
        *("disk", _SIZE, _HOST, "Disk per replica"),
        "Local disk of the node, for example 200GiB, reserved for the job. A job that writes more "
        "is stopped. Without it, nothing is reserved and the node's own limit holds.",
        default_text="none",
        attribute="disk_mib",
        example="200GiB",
        flags=("--disk",),
        spellings=("disk_mib",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("time_limit", FieldKind.DURATION, _WHEN, "Time limit"),
        "For example 30m, 4h or 1d. At the limit the job is asked to stop; after its grace period "
        "it is killed.",
        default=DefaultRule.POLICY,
        attribute="time_limit_seconds",
        example="4h",
        flags=("--time", "-t"),
        directives=("--time",),
        spellings=("time_limit_seconds",),
    ),
    RequestField(
        *("priority", _CHOICE, _WHEN, "Priority", "Its place in the queue.", "normal"),
        attribute="priority",
        choices=("low", "normal", "high"),
        flags=("--priority",),
    ),
    *GANG_FIELDS,
    RequestField(
        *("retries.infrastructure", _COUNT, _WHEN, "Retries after a node failure"),
        "At most 10.",
        default=3,
        attribute="infrastructure_retries",
        maximum=10,
        flags=("--retries",),
        input="infrastructure_retries",
    ),
    RequestField(
        *("retries.user", _COUNT, _WHEN, "Retries after a command failure"),
        "At most 10.",
        default=0,
        attribute="user_retries",
        maximum=10,
        flags=("--user-retries",),
        input="user_retries",
    ),
    RequestField(
        *("grace", FieldKind.DURATION, _WHEN, "Grace period"),
        "From SIGTERM to SIGKILL, for example 2m.",
        default="30s",
        attribute="grace_seconds",
        maximum=3_600,
        example="30s",
        flags=("--grace",),
        spellings=("grace_seconds",),
    ),
    RequestField(
        *("env", FieldKind.VARIABLES, _WHAT, "Environment"),
        "One NAME=value per line. The owner and project admins read the values. Name tokens under "
        "Secrets instead.",
        flag_help="NAME=VALUE, or NAME to pass on its value; repeatable",
        attribute="env",
        flags=("--env", "-e"),
    ),
    RequestField(
        *("secrets", FieldKind.WORDS, _WHAT, "Secrets"),
        "Names of your secrets, or of the project's. The job reads each as a file in "
        "TESSERA_SECRETS_DIR; NAME:env sets a variable. NAME:git is the deploy key or the token "
        "that fetches the code, and the job does not see it.",
        default=(),
        attribute="secrets",
        example="HF_TOKEN",
        flags=("--secret",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("volumes", FieldKind.VOLUMES, _WHAT, "Volumes"),
        "Folders that outlive the job, one NAME:/path per line; NAME:/path:ro for reading only.",
        default=(),
        flag_help="a volume of the project, NAME:/path or NAME:/path:ro; repeatable",
        attribute="volumes",
        example="imagenet:/data:ro",
        flags=("--volume", "-v"),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("apps", FieldKind.WORDS, _WHAT, "Apps"),
        "Ports of the first replica that you open in the browser while the job runs, each with a "
        "name, for example web:8080.",
        default=(),
        attribute="apps",
        example="web:8080",
        flags=("--app",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("profiler", _CHOICE, _WHAT, "Profiler"),
        "Records some steps of rank 0, and shows how much of their time goes to computing, "
        "communication, copies and nothing.",
        default="none",
        attribute="profiler",
        choices=("none", "pytorch"),
        flags=("--profiler",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("preemptible", FieldKind.YES_NO, _WHEN, "Preemptible"),
        "A preempted job is stopped and queued again. It goes on from its last saved checkpoint.",
        default=DefaultRule.PRIORITY,
        attribute="preemptible",
        flags=("--preemptible",),
    ),
    RequestField(
        *("idle_stop", FieldKind.YES_NO, _WHEN, "Stop when idle"),
        "Whether the idle policy of the project, if it has one, warns and stops the job.",
        default=True,
        default_text="yes",
        attribute="idle_stop",
        flags=("--idle-stop",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("progress_limit", _TEXT, _WHEN, "Limit without progress"),
        "The job is stopped when none of its replicas has written a log line or a metric for so "
        "long, and warned before; 30m:warn only warns.",
        default_text="as the installation says",
        attribute="progress_limit",
        example="30m",
        flags=("--progress-limit",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("begin_at", FieldKind.BEGIN, _WHEN, "Begin time"),
        "The job does not start before this time: +2h, or 2026-01-31T18:00:00+01:00.",
        example="+2h",
        flags=("--begin",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("after", FieldKind.WORDS, _WHEN, "After these jobs"),
        "Jobs and arrays that must succeed first, for example J-12 A-5; or J-12:ended if any end is"
        " enough.",
        default=(),
        attribute="after",
        example="J-12",
        flags=("--after",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("array", _TEXT, _WHEN, "Array"),
        "Indices of members that run the same command, and how many may run at once: 0-99%10.",
        default_text="one job",
        attribute="array",
        example="0-99%10",
        flags=("--array", "-a"),
        directives=("--array",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("sweep", FieldKind.WORDS, _WHEN, "Sweep"),
        "Values of parameters, such as lr=1e-3,1e-4 seed=1,2: one member for each combination. "
        "Write {lr} in the command.",
        default=(),
        default_text="one job",
        attribute="sweep",
        example="lr=1e-3,1e-4",
        flags=("--sweep",),
        has_commas_in_words=True,
        is_optional_in_storage=True,
    ),
    RequestField(
        *("notify", FieldKind.WORDS, _WHEN, "Notify"),
        "email, or webhook:NAME: when it starts late, is about to end, ends or fails.",
        default=(),
        attribute="notify",
        example="email",
        flags=("--notify",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("needs", FieldKind.WORDS, _WHERE, "Required node labels"),
        "Only nodes with all of these labels, for example nvme zone=a.",
        default=(),
        attribute="needs",
        example="zone=a",
        flags=("--needs",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("tolerates", FieldKind.WORDS, _WHERE, "Tolerated taints"),
        "Nodes with these taints may be used, too.",
        default=(),
        attribute="tolerates",
        example="beta",
        flags=("--tolerates",),
        is_optional_in_storage=True,
    ),
)


def top_names(fields: Iterable[RequestField] = FIELDS) -> tuple[str, ...]:
    """The fields of a request, without their parts, in the order of the stored form."""
    return tuple(dict.fromkeys(field.top for field in fields))


BY_NAME = {field.name: field for field in FIELDS}
# By spelling: the field that it means.
SPELLINGS = {spelling: field for field in FIELDS for spelling in field.spellings}
