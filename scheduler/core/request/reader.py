"""Reads a request field by field and collects every problem, so that people see all at once."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from agents.contract.collectives import backend_refusal, too_many_processes
from agents.contract.documents import MAX_PROCESSES, CollectiveBackend, LauncherName, SliceKind
from agents.contract.environment import is_environment_name, is_reserved
from agents.contract.message import Message, constant
from agents.contract.shares import too_few_threads
from agents.launchers.registry import LAUNCHERS, processes_refusal
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology
from scheduler.core.request.conditions import read_after, read_begin, read_node_labels
from scheduler.core.request.device import read_device
from scheduler.core.request.quantities import (
    read_cpu_milli,
    read_disk_mib,
    read_memory_mib,
    read_seconds,
    write_memory,
    write_seconds,
)
from scheduler.core.request.values import (
    FieldError,
    JobKind,
    JobRequest,
    ProblemCode,
    RequestLimits,
)

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

FIELDS = frozenset(
    (
        "project",
        "name",
        "kind",
        "image",
        "command",
        "launcher",
        "replicas",
        "processes",
        "device",
        "cpu",
        "memory",
        "shm",
        "disk",
        "time_limit",
        "priority",
        "topology",
        "backend",
        "retries",
        "grace",
        "env",
        "preemptible",
        "begin_at",
        "after",
        "needs",
        "tolerates",
    )
)
UNSUPPORTED_FIELDS = frozenset(
    (
        "volumes",
        "secrets",
        "ports",
        "notify",
    )
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,500}")
MAX_COMMAND, MAX_WORD, MAX_ENV = 1_024, 32_768, 256
# Limits of the wire (agents.contract.documents): a node refuses the whole document beyond them.
MIN_MEMORY_MIB, MAX_GRACE_SECONDS = 4, 3_600


class RequestReader:
    """Reads one request. If it has problems, they are in `errors`, and `read` returns None."""

    def __init__(
        self, data: Any, limits: RequestLimits, *, check_combinations: bool = True
    ) -> None:
        self.check_combinations = check_combinations
        self.errors: list[FieldError] = []
        self.limits = limits
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        if not isinstance(data, Mapping):
            self.refuse("", ProblemCode.TYPE, "send one object with the fields of the request")

    def refuse(self, field: str, code: ProblemCode, why: Message | str) -> None:
        """`why`: what to write instead; a `str` is a constant sentence."""
        if self.check_combinations or code is not ProblemCode.COMBINATION:
            message = why if isinstance(why, Message) else constant(why)
            self.errors.append(FieldError(field, code, message))

    def read(self) -> JobRequest | None:
        self._known_only()
        values: dict[str, Any] = {
            "project": self._name("project"),
            "name": self._name("name"),
            "kind": self._word("kind", JobKind, JobKind.BATCH),
            "image": self._image(),
            "command": self._command(),
            "launcher": self._word("launcher", LauncherName, LauncherName.NONE),
            "replicas": self._count("replicas", 1, 1, self.limits.max_replicas),
            "device": self._device(),
            "cpu_milli": self._amount("cpu", read_cpu_milli, 1_000),
            "memory_mib": self._memory(),
            "shm_mib": self._amount("shm", read_memory_mib, 1_024),
            "disk_mib": self._amount("disk", read_disk_mib, 0),
            "time_limit_seconds": self._time_limit(),
            "priority": self._word("priority", Priority, Priority.NORMAL),
            "topology": self._word("topology", Topology, Topology.BEST),
            "infrastructure_retries": self._retries("infrastructure", 3),
            "user_retries": self._retries("user", 0),
            "grace_seconds": self._grace(),
            "env": self._env(),
            "limit_is_chosen": "time_limit" in self.data,
            "after": read_after(self.data.get("after", []), self.refuse),
        }
        values["preemptible"] = self._preemptible(values["priority"])
        values["begin_at"], values["begin_in"] = self._begin()
        for field in ("needs", "tolerates"):
            values[field] = read_node_labels(field, self.data.get(field, []), self.refuse)
        values["processes"] = self._processes(values["device"], values["launcher"])
        ranks = values["processes"] * values["replicas"]
        values["backend"] = self._backend(values["device"], ranks)
        return None if self.errors else JobRequest(**values)

    def _known_only(self) -> None:
        for name in self.data:
            if name in UNSUPPORTED_FIELDS:
                self.refuse(
                    name,
                    ProblemCode.UNSUPPORTED,
                    Message("%(name)s is not supported yet: remove it", name=name),
                )
            elif name not in FIELDS:
                self.refuse(str(name)[:64], ProblemCode.UNKNOWN, "unknown field: remove it")

    def _name(self, field: str) -> str:
        value = self._given(field)
        if value is None:
            return ""
        if not isinstance(value, str) or not NAME.fullmatch(value):
            sentence = "write 1 to 63 letters, digits, dots, hyphens or underscores"
            self.refuse(field, ProblemCode.VALUE, sentence)
            return ""
        return value

    def _image(self) -> str:
        value = self._given("image")
        if value is None:
            return ""
        if not isinstance(value, str) or not IMAGE.fullmatch(value):
            self.refuse(
                "image", ProblemCode.VALUE, "write an image name, such as registry/pytorch:2.7"
            )
            return ""
        if not any(fnmatchcase(value, pattern) for pattern in self.limits.image_allow):
            allowed = ", ".join(self.limits.image_allow)
            self.refuse(
                "image",
                ProblemCode.FORBIDDEN,
                Message(
                    "%(image)s is not allowed here. Use: %(allowed)s", image=value, allowed=allowed
                ),
            )
        return value

    def _command(self) -> tuple[str, ...]:
        value = self._given("command")
        if value is None:
            return ()
        if not isinstance(value, list) or not value:
            sentence = Message('write a list of words, such as ["python", "train.py"]')
            self.refuse("command", ProblemCode.TYPE, sentence)
            return ()
        if len(value) > MAX_COMMAND:
            self.refuse("command", ProblemCode.RANGE, Message("at most %(n)s words", n=MAX_COMMAND))
            return ()
        for index, word in enumerate(value):
            if not isinstance(word, str):
                self.refuse(
                    f"command.{index}", ProblemCode.TYPE, "each word is a text: put it in quotes"
                )
            elif "\0" in word or len(word) > MAX_WORD:
                sentence = Message("no NUL character, and at most %(n)s characters", n=MAX_WORD)
                self.refuse(f"command.{index}", ProblemCode.VALUE, sentence)
        return tuple(str(word) for word in value)

    def _time_limit(self) -> int:
        limits = self.limits
        seconds = self._amount("time_limit", read_seconds, limits.default_time_limit_seconds)
        if seconds > limits.max_time_limit_seconds:
            maximum = write_seconds(limits.max_time_limit_seconds)
            self.refuse(
                "time_limit", ProblemCode.RANGE, Message("at most %(most)s here", most=maximum)
            )
        return seconds

    def _preemptible(self, priority: Priority) -> bool:
        """Jobs of low priority are preemptible unless they say otherwise."""
        value = self.data.get("preemptible", priority is Priority.LOW)
        if not isinstance(value, bool):
            self.refuse("preemptible", ProblemCode.TYPE, "write true or false, without quotes")
        return value is True

    def _begin(self) -> tuple[int, int]:
        value = self.data.get("begin_at", "")
        return read_begin(value, self.refuse) if value != "" else (0, 0)

    def _memory(self) -> int:
        memory_mib = self._amount("memory", read_memory_mib, 4_096)
        if memory_mib < MIN_MEMORY_MIB:
            self.refuse(
                "memory",
                ProblemCode.RANGE,
                Message("at least %(least)s", least=write_memory(MIN_MEMORY_MIB)),
            )
        return memory_mib

    def _grace(self) -> int:
        seconds = self._amount("grace", read_seconds, 30)
        if seconds > MAX_GRACE_SECONDS:
            self.refuse(
                "grace",
                ProblemCode.RANGE,
                Message("at most %(most)s", most=write_seconds(MAX_GRACE_SECONDS)),
            )
        return seconds

    def _retries(self, kind: str, default: int) -> int:
        retries = self.data.get("retries", {})
        if not isinstance(retries, Mapping) or set(retries) - {"infrastructure", "user"}:
            if kind == "infrastructure":
                sentence = "write retries as {infrastructure: 3, user: 0}"
                self.refuse("retries", ProblemCode.TYPE, sentence)
            return default
        return self._bounded(f"retries.{kind}", retries.get(kind, default), 0, 10)

    def _env(self) -> dict[str, str]:
        env = self.data.get("env", {})
        if not isinstance(env, Mapping) or len(env) > MAX_ENV:
            sentence = Message(
                'write env as names and texts, such as {"BATCH": "64"}, at most %(n)s', n=MAX_ENV
            )
            self.refuse("env", ProblemCode.TYPE, sentence)
            return {}
        return {str(k): str(v) for k, v in env.items() if self._is_env(k, v)}

    def _is_env(self, name: Any, value: Any) -> bool:
        before = len(self.errors)
        path = f"env.{name!s:.64}"
        if not isinstance(name, str) or not is_environment_name(name):
            self.refuse(path, ProblemCode.VALUE, "a name has letters, digits and underscores only")
        elif is_reserved(name):
            self.refuse(
                path,
                ProblemCode.RESERVED,
                Message("%(name)s is set by Tessera: remove it", name=name),
            )
        elif not isinstance(value, str) or "\0" in value or len(value) > MAX_WORD:
            self.refuse(
                path, ProblemCode.TYPE, 'the value is a text: put it in quotes, such as "64"'
            )
        return len(self.errors) == before

    def _device(self) -> DeviceRequest:
        value = self._given("device")
        return DeviceRequest() if value is None else read_device(value, self.refuse)

    def _backend(self, device: DeviceRequest, ranks: int) -> CollectiveBackend:
        """A request for an amount of memory counts as a slice, because it may become one."""
        backend = self._word("backend", CollectiveBackend, CollectiveBackend.AUTO)
        kind = SliceKind.MPS if device.mps_threads else SliceKind.MIG
        if why := backend_refusal(backend, [SliceKind.GPU if device.gpus else kind], ranks):
            self.refuse("backend", ProblemCode.COMBINATION, why)
        return backend

    def _processes(self, device: DeviceRequest, launcher: LauncherName) -> int:
        """Ranks per replica, by default as many as the launcher starts."""
        gpus = device.gpus
        default = LAUNCHERS[launcher].default_processes(gpus)
        processes = self._count("processes", default, 1, MAX_PROCESSES)
        if why := too_many_processes(gpus, processes):
            self.refuse(
                "processes",
                ProblemCode.COMBINATION,
                Message("%(why)s; device.gpus is %(gpus)s", why=why, gpus=gpus),
            )
        if device.mps_threads and (why := too_few_threads(device.mps_threads, processes)):
            self.refuse("processes", ProblemCode.COMBINATION, why)
        if why := processes_refusal(launcher, processes):
            self.refuse("processes", ProblemCode.COMBINATION, why)
        return processes

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

    def _word(self, field: str, words: type[Word], default: Word) -> Word:
        value = self.data.get(field, default)
        try:
            return words(value)
        except ValueError:
            self.refuse(
                field, ProblemCode.VALUE, Message("write one of %(words)s", words=", ".join(words))
            )
            return default

    def _count(self, field: str, default: int, minimum: int, maximum: int) -> int:
        return self._bounded(field, self.data.get(field, default), minimum, maximum)

    def _bounded(self, field: str, value: Any, minimum: int, maximum: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(
                field,
                ProblemCode.TYPE,
                Message(
                    "write a whole number from %(least)s to %(most)s", least=minimum, most=maximum
                ),
            )
            return minimum
        if not minimum <= value <= maximum:
            self.refuse(
                field,
                ProblemCode.RANGE,
                Message(
                    "write a whole number from %(least)s to %(most)s", least=minimum, most=maximum
                ),
            )
            return minimum
        return value

    def _amount(self, field: str, read: Callable[[object], int], default: int) -> int:
        if field not in self.data:
            return default
        try:
            return read(self.data[field])
        except ValueError as error:
            self.refuse(field, ProblemCode.VALUE, error.args[0])
            return default
