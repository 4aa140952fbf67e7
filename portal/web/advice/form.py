"""The form of the advisor's page."""

from collections.abc import Mapping
from itertools import groupby

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from agents.contract.message import Message
from portal.advice.config_files import volume_place
from portal.advice.question import InvalidQuestion, Task
from portal.advice.reading import MAX_CONFIG_BYTES
from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.quantisation import Quantisation
from scheduler.advisor.transformer import Recompute

FIELDS = (
    *("model", "config", "config_file", "config_volume", "config_path", "task", "batch"),
    *("recompute", "sequence"),
    *("tokens", "steps", "concurrency", "quantisation", "project"),
)
# Of a file in a volume; any of the first five fields names a model.
VOLUME_FIELDS = ("config_volume", "config_path")
MODEL_FIELDS = ("model", "config", "config_file", *VOLUME_FIELDS)
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
    Recompute.FULL: gettext_lazy("Gradient checkpointing: less memory"),
    Recompute.NONE: gettext_lazy("Kept: faster"),
}


def form_values(data: Mapping[str, str]) -> dict[str, str]:
    """What was sent, as typed; of a file that is too large so much that it is refused."""
    return {name: data.get(name, "").strip()[: MAX_CONFIG_BYTES + 1] for name in FIELDS}


def question_values(values: Mapping[str, str]) -> dict[str, str]:
    """The values as a question has them: the chosen volume and the path in it are one
    `config_file`. Raises InvalidQuestion."""
    volume, path = values["config_volume"], values["config_path"]
    asked = {name: text for name, text in values.items() if name not in VOLUME_FIELDS}
    if path and not volume:
        raise InvalidQuestion({"config_volume": Message("Choose the volume that has this file")})
    if volume and asked["config_file"]:
        sentence = "Choose a file of the project or one of a volume, not both"
        raise InvalidQuestion({"config_volume": Message(sentence)})
    return asked | {"config_file": volume_place(volume, path)} if volume else asked


def models_by_family() -> list[tuple[str, list[str]]]:
    """The names of the catalogue, in its order."""
    families = groupby(MODELS.values(), key=lambda model: str(model.family))
    return [(family, [model.name for model in models]) for family, models in families]
