"""Which requests can be profiled."""

from collections.abc import Mapping
from typing import Any

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.contract.profilers import Profiler
from scheduler.core.request.values import JobKind, ProblemCode, Refuse

# Their programs make no steps of a PyTorch optimizer.
WITHOUT_STEPS = frozenset(
    (
        *(LauncherName.NCCL_TESTS, LauncherName.JAX, LauncherName.TENSORFLOW),
        *(LauncherName.MINDSPORE, LauncherName.VLLM, LauncherName.SGLANG, LauncherName.TGI),
        *(LauncherName.OLLAMA, LauncherName.JUPYTER, LauncherName.CODE_SERVER),
    )
)


def has_steps(kind: JobKind, launcher: LauncherName) -> bool:
    """Whether a program of this kind may train with PyTorch from its start to its end."""
    return kind is not JobKind.NOTEBOOK and launcher not in WITHOUT_STEPS


def refuse_profiler(values: Mapping[str, Any], refuse: Refuse) -> None:
    """`values`: by attribute of JobRequest."""
    if values["profiler"] is Profiler.NONE or has_steps(values["kind"], values["launcher"]):
        return
    why = Message(
        "PyTorch's profiler records steps of a training: leave it out for notebooks and for "
        "launcher %(launchers)s",
        launchers=", ".join(name for name in LauncherName if name in WITHOUT_STEPS),
    )
    changes = {"profiler": str(Profiler.NONE)}
    refuse("profiler", ProblemCode.COMBINATION, why, changes)
