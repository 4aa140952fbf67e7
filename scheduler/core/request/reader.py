"""Reads a request field by field and collects every problem, so that people see all at once."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

from agents.contract.documents import CollectiveBackend
from agents.contract.message import Message, constant
from agents.contract.rank_network import RdmaUse
from agents.launchers.registry import LAUNCHERS
from scheduler.core.model.snapshot import DeviceRequest, Priority
from scheduler.core.request.choices import CHOICES
from scheduler.core.request.combinations import refuse_combinations
from scheduler.core.request.conditions import read_begin, read_node_labels
from scheduler.core.request.device import read_device
from scheduler.core.request.notebooks import completed_notebook, refuse_notebook
from scheduler.core.request.placeholders import refuse_placeholders
from scheduler.core.request.profilers import refuse_profiler
from scheduler.core.request.program import read_command, read_image_name, require_command
from scheduler.core.request.progress_limits import read_progress_limit
from scheduler.core.request.quantities import (
    read_cpu_milli,
    read_disk_mib,
    read_memory_mib,
    read_seconds,
    write_memory,
    write_seconds,
)
from scheduler.core.request.replica_range import read_replicas
from scheduler.core.request.secrets import read_secrets, refuse_git_combination
from scheduler.core.request.typed_text import (
    meant_count,
    mended_fields,
    probably_meant,
    without_blanks,
)
from scheduler.core.request.value_readers import VALUE_READERS
from scheduler.core.request.values import (
    FieldError,
    GangPreflight,
    HostShare,
    JobRequest,
    ProblemCode,
    RequestLimits,
)
from scheduler.core.request_fields import (
    BY_NAME,
    FIELDS,
    SPELLINGS,
    DefaultRule,
    FieldKind,
    RequestField,
    top_names,
)

Word = TypeVar("Word", bound=StrEnum)

FIELD_NAMES = frozenset(top_names())
AMOUNTS: Mapping[str, Callable[[object], int]] = {
    FieldKind.CPU: read_cpu_milli,
    FieldKind.SIZE: read_memory_mib,
    FieldKind.DURATION: read_seconds,
}
# The unit of a spelling with its unit in the name.
SPELLED_UNITS = {FieldKind.CPU: "m", FieldKind.SIZE: "MiB", FieldKind.DURATION: "s"}
NAME, NOT_IN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"), re.compile(r"[^A-Za-z0-9._-]+")


class RequestReader:
    """Reads one request. If it has problems, they are in `errors`, and `read` returns None."""

    def __init__(
        self, data: Any, limits: RequestLimits, *, check_combinations: bool = True
    ) -> None:
        self.check_combinations = check_combinations
        self.errors: list[FieldError] = []
        self.limits = limits
        self.data: dict[str, Any] = dict(data) if isinstance(data, Mapping) else {}
        self.values: dict[str, Any] = {}
        """By attribute of JobRequest, as far as it is read."""
        if not isinstance(data, Mapping):
            self.refuse("", ProblemCode.TYPE, "send one object with the fields of the request")

    def refuse(
        self,
        field: str,
        code: ProblemCode,
        why: Message | str,
        suggestion: Mapping[str, Any] | None = None,
        combination: str = "",
    ) -> None:
        """`why`: what to write instead; a `str` is a constant sentence. `suggestion` and
        `combination`: as in FieldError."""
        if self.check_combinations or code is not ProblemCode.COMBINATION:
            message = why if isinstance(why, Message) else constant(why)
            self.errors.append(FieldError(field, code, message, suggestion or {}, combination))

    def read(self) -> JobRequest | None:
        self._known_only()
        self._spelled()
        self.data = completed_notebook(self.data)
        for field in FIELDS:
            if field.attribute:
                self.values[field.attribute] = self._read(field)
        require_command(self.data.get("command"), self.values["launcher"], self.refuse)
        if self.check_combinations:
            refuse_combinations(self.values, self.device, self.refuse)
        refuse_notebook(self.values, self.refuse)
        refuse_profiler(self.values, self.refuse)
        refuse_placeholders(self.values, self.refuse)
        refuse_git_combination(self.values["code"], self.values["secrets"], self.refuse)
        self.values["begin_at"], self.values["begin_in"] = self._begin()
        self.values |= {"device": self.device, "limit_is_chosen": "time_limit" in self.data}
        return None if self.errors else JobRequest(**self.values)

    def _read(self, field: RequestField) -> Any:
        if own := OWN_READERS.get(field.name):
            return own(self)
        if field.name in VALUE_READERS:
            read, default = VALUE_READERS[field.name]
            return read(self.data.get(field.name, default), self.refuse)
        match field.kind:
            case FieldKind.CHOICE:
                return self._choice(field, CHOICES[field.name])
            case FieldKind.COUNT:
                return self._count(field)
            case FieldKind.WORDS:
                return self._node_labels[field.name]
            case FieldKind.TEXT:
                return self._name(field.name)
            case FieldKind.YES_NO:
                return self._yes_no(field)
        return self._amount(field)

    def _default(self, field: RequestField) -> Any:
        """The value of a field that is left out, as its kind is read."""
        match field.default:
            case DefaultRule.HALF_MEMORY:
                return max(1, self.values["memory_mib"] // 2)
            case DefaultRule.HOST_SHARE:
                return getattr(self._host_share, field.attribute)
            case DefaultRule.POLICY:
                return self.limits.default_time_limit_seconds
            case DefaultRule.LAUNCHER:
                launcher = LAUNCHERS[self.values["launcher"]]
                return launcher.default_processes(self.device.gpus)
            case DefaultRule.PRIORITY:
                return self.values["priority"] is Priority.LOW
            case str() as written if field.kind in AMOUNTS:
                return AMOUNTS[field.kind](written)
            case None:
                return 0
        return field.default

    @cached_property
    def device(self) -> DeviceRequest:
        value = self._given("device")
        return DeviceRequest() if value is None else read_device(value, self.refuse)

    @cached_property
    def _node_labels(self) -> dict[str, tuple[str, ...]]:
        """Required labels and tolerated taints of nodes."""
        return {
            name: read_node_labels(name, self.data.get(name, []), self.refuse)
            for name in ("needs", "tolerates")
        }

    @cached_property
    def _host_share(self) -> HostShare:
        return self.limits.host_share(self.device, **self._node_labels)

    def _spelled(self) -> None:
        """Give fields that are written as in REST's answers, "memory_mib", their own name."""
        for spelling, field in SPELLINGS.items():
            if spelling not in self.data:
                continue
            value = self.data.pop(spelling)
            if field.name in self.data:
                sentence = Message(
                    "%(one)s and %(other)s are the same field: write one of them",
                    one=spelling,
                    other=field.name,
                )
                self.refuse(spelling, ProblemCode.COMBINATION, sentence)
            elif not isinstance(value, int) or isinstance(value, bool):
                sentence = Message(
                    "write a whole number, or %(field)s with a unit", field=field.name
                )
                self.refuse(spelling, ProblemCode.TYPE, sentence)
            else:
                self.data[field.name] = f"{value}{SPELLED_UNITS[field.kind]}"

    def _known_only(self) -> None:
        for name in self.data:
            if name == "ports":
                sentence = "write apps instead, with a name for each port, such as web:8080"
                self.refuse(name, ProblemCode.UNSUPPORTED, sentence)
            elif name not in FIELD_NAMES and name not in SPELLINGS:
                self.refuse(str(name)[:64], ProblemCode.UNKNOWN, "unknown field: remove it")

    def _name(self, field: str) -> str:
        value = without_blanks(self._given(field))
        if value is None:
            return ""
        if not isinstance(value, str) or not NAME.fullmatch(value):
            sentence = "write 1 to 63 letters, digits, dots, hyphens or underscores"
            meant = NOT_IN_NAME.sub("-", value).strip("-._")[:63] if isinstance(value, str) else ""
            self.refuse(field, ProblemCode.VALUE, sentence, {field: meant} if meant else None)
            return ""
        return value

    def _image(self) -> str:
        value = without_blanks(self._given("image"))
        if value is None:
            return ""
        # An earlier version may have accepted the name of a stored request.
        allow = self.limits.image_allow if self.check_combinations else None
        return read_image_name(value, allow, self.refuse)

    def _command(self) -> tuple[str, ...]:
        value = self.data.get("command")
        return () if value is None else read_command(value, self.refuse)

    def _time_limit(self) -> int:
        limits = self.limits
        seconds = self._amount(BY_NAME["time_limit"])
        if seconds > limits.max_time_limit_seconds:
            maximum = write_seconds(limits.max_time_limit_seconds)
            sentence = Message("at most %(most)s here", most=maximum)
            self.refuse("time_limit", ProblemCode.RANGE, sentence, {"time_limit": maximum})
        return seconds

    def _yes_no(self, field: RequestField) -> bool:
        value = self.data.get(field.name, self._default(field))
        if not isinstance(value, bool):
            self.refuse(field.name, ProblemCode.TYPE, "write true or false, without quotes")
        return value is True

    def _begin(self) -> tuple[int, int]:
        value = self.data.get("begin_at", "")
        return read_begin(value, self.refuse) if value != "" else (0, 0)

    def _replicas(self) -> int:
        """The least; the greatest is noted beside it."""
        most = self.limits.max_replicas
        least, self.values["max_replicas"] = read_replicas(
            self.data.get("replicas", 1),
            self.refuse,
            lambda path, value: self._bounded(path, value, 1, most),
        )
        return least

    def _infrastructure_retries(self) -> int:
        if not self._has_retries:
            sentence = "write retries as {infrastructure: 3, user: 0}"
            self.refuse("retries", ProblemCode.TYPE, sentence)
        return self._retries("infrastructure")

    def _user_retries(self) -> int:
        return self._retries("user")

    @property
    def _has_retries(self) -> bool:
        """Whether retries can be read, or are left out."""
        retries = self.data.get("retries", {})
        return isinstance(retries, Mapping) and not set(retries) - {"infrastructure", "user"}

    def _progress_limit(self) -> str:
        has_policy = (
            self.values["idle_stop"]
            and max(self.values["replicas"], self.values["max_replicas"]) > 1
        )
        policy_seconds = self.limits.hung_stop_seconds if has_policy else 0
        return read_progress_limit(self.data.get("progress_limit", ""), policy_seconds, self.refuse)

    def _preflight(self) -> GangPreflight:
        use = self._choice(BY_NAME["preflight"], GangPreflight)
        most = max(self.values["replicas"], self.values["max_replicas"])
        if use is GangPreflight.NONE:
            return use
        mended = {"preflight": str(GangPreflight.NONE)}
        if most < 2 or not self.device.gpus:
            why = Message("a network check is for several replicas of whole GPUs: leave it out")
            self.refuse("preflight", ProblemCode.COMBINATION, why, mended)
        elif not self.limits.can_preflight:
            why = Message(
                "no network is checked here until an admin sets TESSERA_NCCL_TESTS_IMAGE: leave it "
                "out"
            )
            self.refuse("preflight", ProblemCode.FORBIDDEN, why, mended)
        return use

    def _retries(self, kind: str) -> int:
        field = BY_NAME[f"retries.{kind}"]
        retries = self.data.get("retries", {}) if self._has_retries else {}
        value = retries.get(kind, field.default)
        return self._bounded(field.name, value, field.minimum, field.maximum)

    def _secrets(self) -> tuple[str, ...]:
        return read_secrets(self.data.get("secrets", []), self.values["env"], self.refuse)

    def _rdma(self) -> RdmaUse:
        use = self._choice(BY_NAME["rdma"], RdmaUse)
        is_gloo = self.values["backend"] is CollectiveBackend.GLOO
        if use is RdmaUse.ON and (self.values["replicas"] < 2 or not self.device.gpus or is_gloo):
            why = Message(
                "RDMA joins several replicas of whole GPUs by NCCL: request these, or write auto"
            )
            self.refuse("rdma", ProblemCode.COMBINATION, why)
        return use

    def _given(self, field: str) -> Any:
        if field not in self.data:
            self.refuse(field, ProblemCode.MISSING, Message("%(field)s is required", field=field))
        elif self.data[field] is None:
            self.refuse(
                field,
                ProblemCode.TYPE,
                Message("%(field)s is required and must not be null", field=field),
            )
        return self.data.get(field)

    def _choice(self, field: RequestField, words: type[Word]) -> Word:
        value = without_blanks(self.data.get(field.name, field.default))
        try:
            return words(value)
        except ValueError:
            sentence = Message("write one of %(words)s", words=", ".join(words))
            self.refuse(field.name, ProblemCode.VALUE, sentence)
            return words(str(field.default))

    def _count(self, field: RequestField) -> int:
        value = self.data[field.name] if field.name in self.data else self._default(field)
        return self._bounded(field.name, value, field.minimum, field.maximum)

    def _bounded(self, field: str, value: Any, minimum: int, maximum: int) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if is_number and minimum <= value <= maximum:
            return int(value)
        sentence = Message(
            "write a whole number from %(least)s to %(most)s", least=minimum, most=maximum
        )
        meant = min(max(value, minimum), maximum) if is_number else meant_count(value)
        fits = isinstance(meant, int) and minimum <= meant <= maximum
        changes = mended_fields(BY_NAME[field], meant) if fits and "." not in field else None
        code = ProblemCode.RANGE if is_number else ProblemCode.TYPE
        self.refuse(field, code, sentence, changes)
        return minimum

    def _amount(self, field: RequestField, read: Callable[[object], int] | None = None) -> int:
        if field.name not in self.data:
            return int(self._default(field))
        try:
            amount = (read or AMOUNTS[field.kind])(self.data[field.name])
        except ValueError as error:
            meant = probably_meant(field.kind, self.data[field.name])
            self.refuse(field.name, ProblemCode.VALUE, error.args[0], mended_fields(field, meant))
            return int(self._default(field))
        write = write_seconds if field.kind is FieldKind.DURATION else write_memory
        if amount < field.minimum:
            least = write(field.minimum)
            sentence = Message("at least %(least)s", least=least)
            self.refuse(field.name, ProblemCode.RANGE, sentence, mended_fields(field, least))
        if field.maximum and amount > field.maximum:
            most = write(field.maximum)
            sentence = Message("at most %(most)s", most=most)
            self.refuse(field.name, ProblemCode.RANGE, sentence, mended_fields(field, most))
        return amount


# Fields with rules of their own.
OWN_READERS: Mapping[str, Callable[[RequestReader], Any]] = {
    "image": RequestReader._image,
    "command": RequestReader._command,
    "disk": lambda reader: reader._amount(BY_NAME["disk"], read_disk_mib),
    "time_limit": RequestReader._time_limit,
    "replicas": RequestReader._replicas,
    "rdma": RequestReader._rdma,
    "preflight": RequestReader._preflight,
    "retries.infrastructure": RequestReader._infrastructure_retries,
    "retries.user": RequestReader._user_retries,
    "secrets": RequestReader._secrets,
    "progress_limit": RequestReader._progress_limit,
}
