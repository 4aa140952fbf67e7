"""The form of the advisor's page."""

from collections.abc import Mapping
from itertools import groupby

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from portal.advice.question import Task
from portal.advice.reading import MAX_CONFIG_BYTES
from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.quantisation import Quantisation
from scheduler.advisor.transformer import Recompute

FIELDS = (
    *("model", "config", "config_file", "task", "batch", "recompute", "sequence"),
    *("tokens", "steps", "concurrency", "quantisation", "project"),
)
DEFAULTS = {
    **dict.fromkeys(FIELDS, ""),
    "task": str(Task.LORA),
    "recompute": str(Recompute.FULL),
    "quantisation": str(Quantisation.BF16),
}
TASK_LABELS: dict[str, str | Promise] = {
    Task.PRETRAINING: gettext_lazy("Train from scratch"),
    Task.FINE_TUNING: gettext_lazy("Fine-tune all weights"),
    Task.LORA: "LoRA",
    Task.QLORA: "QLoRA",
    Task.INFERENCE: gettext_lazy("Serve (inference)"),
}
RECOMPUTE_LABELS: dict[str, str | Promise] = {
    Recompute.FULL: gettext_lazy("Computed again (gradient checkpointing): less memory"),
    Recompute.NONE: gettext_lazy("Kept: faster"),
}


def form_values(data: Mapping[str, str]) -> dict[str, str]:
    """What was sent, as typed; of a file that is too large so much that it is refused."""
    return {name: data.get(name, "").strip()[: MAX_CONFIG_BYTES + 1] for name in FIELDS}


def models_by_family() -> list[tuple[str, list[str]]]:
    """The names of the catalogue, in its order."""
    families = groupby(MODELS.values(), key=lambda model: str(model.family))
    return [(family, [model.name for model in models]) for family, models in families]
