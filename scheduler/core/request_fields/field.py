"""The columns of the table: the properties of one field of a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class FieldKind(StrEnum):
    """How a value is written, and so how it is read, shown and completed."""

    TEXT = "text"
    CHOICE = "choice"
    COUNT = "count"
    COUNT_RANGE = "count_range"
    """A number, or the least and the greatest one: {min: 2, max: 8}; 2-8 where people type."""
    CPU = "cpu"
    SIZE = "size"
    DURATION = "duration"
    BEGIN = "begin"
    """A time with its zone, or a delay such as "+2h"."""
    WORDS = "words"
    """A list of short words."""
    COMMAND = "command"
    VARIABLES = "variables"
    YES_NO = "yes_no"
    VOLUMES = "volumes"
    """Volumes with their paths in the containers."""
    SHARE = "share"
    """Threads and memory of an MPS share."""


class FieldGroup(StrEnum):
    """Where the page and the command line's help show a field."""

    WHAT = "what"
    DEVICE = "device"
    RESOURCES = "resources"
    WHERE = "where"
    WHEN = "when"


class DefaultRule(StrEnum):
    """The source of a default that is no constant."""

    REQUIRED = "required"
    IMAGE_PROGRAM = "image_program"
    """The image's own program under a launcher that keeps it; else the field is required."""
    HOST_SHARE = "host_share"
    """The device's share of the node."""
    HALF_MEMORY = "half_memory"
    """Half of the memory, as Linux gives it."""
    POLICY = "policy"
    """A setting of the installation."""
    LAUNCHER = "launcher"
    """As many processes as the launcher starts."""
    PRIORITY = "priority"
    """Jobs of low priority are preemptible."""


# The rules in words; the help of a required field has none.
RULE_HELP = {
    DefaultRule.IMAGE_PROGRAM: "the image's own program under launcher entrypoint, else required",
    DefaultRule.HOST_SHARE: "the device's share of the node",
    DefaultRule.HALF_MEMORY: "half of the memory",
    DefaultRule.POLICY: "set by the installation",
    DefaultRule.LAUNCHER: "as many as the launcher starts",
    DefaultRule.PRIORITY: "only at low priority",
}

# Defaults that change with the device: directly, or with the memory or the GPUs of a replica.
FOLLOWING = (DefaultRule.HOST_SHARE, DefaultRule.HALF_MEMORY, DefaultRule.LAUNCHER)


@dataclass(frozen=True, slots=True)
class RequestField:
    """One row: a field, or a part of one if its name has a dot."""

    name: str
    """In REST and YAML."""
    kind: FieldKind
    group: FieldGroup
    label: str
    help: str
    """One or two sentences: its effect and its form."""
    default: object = None
    """As written in a request, or a DefaultRule. None and an empty tuple: nothing."""
    default_text: str = ""
    """The default in words, if the value or its rule does not give them."""
    attribute: str = ""
    """Of `JobRequest`; empty if its reader sets several."""
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = 0
    """0 for no limit, or one of the installation."""
    example: str = ""
    flags: tuple[str, ...] = ()
    """Of `tessera submit`, the usual one first."""
    flag_help: str = ""
    """The help of its flag, where the command line differs."""
    directives: tuple[str, ...] = ()
    """Options of `#SBATCH` that set it."""
    spellings: tuple[str, ...] = ()
    """Other names that are accepted: those of REST responses, with the unit in the name."""
    input: str = ""
    """The name on the request page, where it is not `name`."""
    has_commas_in_words: bool = False
    """Of words: only blanks separate them on the request page."""
    is_optional_in_storage: bool = False
    """Whether a stored request leaves it out while it has its default."""
    since: str = "0.1"

    @property
    def top(self) -> str:
        """The field of the request that it is, or is a part of."""
        return self.name.partition(".")[0]

    @property
    def part(self) -> str:
        """Its name inside that field; empty for a whole field."""
        return self.name.partition(".")[2]

    @property
    def form_name(self) -> str:
        return self.input or self.name

    @property
    def is_required(self) -> bool:
        return self.default is DefaultRule.REQUIRED

    @property
    def follows_device(self) -> bool:
        """Whether its default changes with the device."""
        return self.default in FOLLOWING

    @property
    def option(self) -> str:
        """The name of its flag as a parameter: "time" of --time."""
        return self.flags[0].lstrip("-").replace("-", "_") if self.flags else ""

    @property
    def default_help(self) -> str:
        """The default in words; empty if it has none."""
        if self.default_text:
            return self.default_text
        if isinstance(self.default, DefaultRule):
            return RULE_HELP.get(self.default, "")
        return "" if self.default in (None, ()) else str(self.default)

    @property
    def example_and_default(self) -> str:
        """Sentences after `help` in the schema and on the command line; may be empty."""
        has_example = "example" in self.help.lower() or not self.example
        example = "" if has_example else f" Such as {self.example}."
        return example + (f" Default: {self.default_help}." if self.default_help else "")

    def value_in(self, request: Mapping[str, Any]) -> Any:
        """Its value in a request as it is written; None without one."""
        value = request.get(self.top)
        if not self.part:
            return value
        return value.get(self.part) if isinstance(value, Mapping) else None

    def write_to(self, request: dict[str, Any], value: object) -> None:
        """Set its value in a request as it is written."""
        if self.part:
            request.setdefault(self.top, {})[self.part] = value
        else:
            request[self.name] = value
