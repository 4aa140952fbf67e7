"""Reads a request field by field and collects every problem, so that people mend all at once."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from agents.contract.collectives import backend_refusal, too_many_processes
from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.environment import is_environment_name, is_reserved
from agents.contract.phrase import Phrase
from agents.contract.shares import too_few_threads
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology
from scheduler.core.request.conditions import read_after, read_begin, read_node_words
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
    JobRequest,
    Kind,
    Launcher,
    Problem,
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
NOT_YET = frozenset(
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
# What the wire carries (agents.contract.documents): a node refuses a whole document beyond it.
MIN_MEMORY_MIB, MAX_GRACE_SECONDS = 4, 3_600


class Reader:
    """One reading of one request. `errors` holds what is wrong; `read` is then None. `of_today`:
    what must not go together is wrong, too."""

    def __init__(self, data: Any, limits: RequestLimits, *, of_today: bool = True) -> None:
        self.of_today = of_today
        self.errors: list[FieldError] = []
        self.limits = limits
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        if not isinstance(data, Mapping):
            self.refuse("", Problem.TYPE, "send one object with the request's fields")

    def refuse(self, field: str, code: Problem, sentence: str) -> None:
        if self.of_today or code is not Problem.COMBINATION:
            self.errors.append(FieldError(field, code, sentence))

    def read(self) -> JobRequest | None:
        self._known_only()
        found: dict[str, Any] = {
            "project": self._name("project"),
            "name": self._name("name"),
            "kind": self._word("kind", Kind, Kind.BATCH),
            "image": self._image(),
            "command": self._command(),
            "launcher": self._word("launcher", Launcher, Launcher.NONE),
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
        found["preemptible"] = self._preemptible(found["priority"])
        found["begin_at"], found["begin_in"] = self._begin()
        for field in ("needs", "tolerates"):
            found[field] = read_node_words(field, self.data.get(field, []), self.refuse)
        found["processes"] = self._processes(found["device"])
        ranks = found["processes"] * found["replicas"]
        found["backend"] = self._backend(found["device"], ranks)
        return None if self.errors else JobRequest(**found)

    def _known_only(self) -> None:
        for name in self.data:
            if name in NOT_YET:
                self.refuse(
                    name,
                    Problem.UNSUPPORTED,
                    Phrase("%(name)s is not offered yet: leave it out", name=name),
                )
            elif name not in FIELDS:
                self.refuse(str(name)[:64], Problem.UNKNOWN, "no such field: leave it out")

    def _name(self, field: str) -> str:
        value = self._given(field)
        if value is None:
            return ""
        if not isinstance(value, str) or not NAME.fullmatch(value):
            sentence = "write 1 to 63 letters, digits, dots, hyphens or underscores"
            self.refuse(field, Problem.VALUE, sentence)
            return ""
        return value

    def _image(self) -> str:
        value = self._given("image")
        if value is None:
            return ""
        if not isinstance(value, str) or not IMAGE.fullmatch(value):
            self.refuse("image", Problem.VALUE, "write an image name, such as registry/pytorch:2.7")
            return ""
        if not any(fnmatchcase(value, pattern) for pattern in self.limits.image_allow):
            allowed = ", ".join(self.limits.image_allow)
            self.refuse(
                "image",
                Problem.FORBIDDEN,
                Phrase(
                    "%(image)s is not allowed here. Use: %(allowed)s", image=value, allowed=allowed
                ),
            )
        return value

    def _command(self) -> tuple[str, ...]:
        value = self._given("command")
        if value is None:
            return ()
        if not isinstance(value, list) or not value:
            sentence = 'write a list of words, such as ["python", "train.py"]'
            self.refuse("command", Problem.TYPE, sentence)
            return ()
        if len(value) > MAX_COMMAND:
            self.refuse("command", Problem.RANGE, Phrase("at most %(n)s words", n=MAX_COMMAND))
            return ()
        for index, word in enumerate(value):
            if not isinstance(word, str):
                self.refuse(
                    f"command.{index}", Problem.TYPE, "each word is a text: put it in quotes"
                )
            elif "\0" in word or len(word) > MAX_WORD:
                sentence = Phrase("no NUL character, and at most %(n)s characters", n=MAX_WORD)
                self.refuse(f"command.{index}", Problem.VALUE, sentence)
        return tuple(str(word) for word in value)

    def _time_limit(self) -> int:
        limits = self.limits
        seconds = self._amount("time_limit", read_seconds, limits.default_time_limit_seconds)
        if seconds > limits.max_time_limit_seconds:
            most = write_seconds(limits.max_time_limit_seconds)
            self.refuse("time_limit", Problem.RANGE, Phrase("at most %(most)s here", most=most))
        return seconds

    def _preemptible(self, priority: Priority) -> bool:
        """Work of low priority makes way unless it says that it cannot."""
        value = self.data.get("preemptible", priority is Priority.LOW)
        if not isinstance(value, bool):
            self.refuse("preemptible", Problem.TYPE, "write true or false, without quotes")
        return value is True

    def _begin(self) -> tuple[int, int]:
        value = self.data.get("begin_at", "")
        return read_begin(value, self.refuse) if value != "" else (0, 0)

    def _memory(self) -> int:
        memory_mib = self._amount("memory", read_memory_mib, 4_096)
        if memory_mib < MIN_MEMORY_MIB:
            self.refuse(
                "memory",
                Problem.RANGE,
                Phrase("at least %(least)s", least=write_memory(MIN_MEMORY_MIB)),
            )
        return memory_mib

    def _grace(self) -> int:
        seconds = self._amount("grace", read_seconds, 30)
        if seconds > MAX_GRACE_SECONDS:
            self.refuse(
                "grace",
                Problem.RANGE,
                Phrase("at most %(most)s", most=write_seconds(MAX_GRACE_SECONDS)),
            )
        return seconds

    def _retries(self, kind: str, default: int) -> int:
        retries = self.data.get("retries", {})
        if not isinstance(retries, Mapping) or set(retries) - {"infrastructure", "user"}:
            if kind == "infrastructure":
                sentence = "write retries as {infrastructure: 3, user: 0}"
                self.refuse("retries", Problem.TYPE, sentence)
            return default
        return self._bounded(f"retries.{kind}", retries.get(kind, default), 0, 10)

    def _env(self) -> dict[str, str]:
        env = self.data.get("env", {})
        if not isinstance(env, Mapping) or len(env) > MAX_ENV:
            sentence = Phrase(
                'write env as names and texts, such as {"BATCH": "64"}, at most %(n)s', n=MAX_ENV
            )
            self.refuse("env", Problem.TYPE, sentence)
            return {}
        return {str(k): str(v) for k, v in env.items() if self._is_env(k, v)}

    def _is_env(self, name: Any, value: Any) -> bool:
        before = len(self.errors)
        path = f"env.{name!s:.64}"
        if not isinstance(name, str) or not is_environment_name(name):
            self.refuse(path, Problem.VALUE, "a name has letters, digits and underscores only")
        elif is_reserved(name):
            self.refuse(
                path,
                Problem.RESERVED,
                Phrase("%(name)s is set by Tessera: leave it out", name=name),
            )
        elif not isinstance(value, str) or "\0" in value or len(value) > MAX_WORD:
            self.refuse(path, Problem.TYPE, 'the value is a text: put it in quotes, such as "64"')
        return len(self.errors) == before

    def _device(self) -> DeviceRequest:
        value = self._given("device")
        return DeviceRequest() if value is None else read_device(value, self.refuse)

    def _backend(self, device: DeviceRequest, ranks: int) -> CollectiveBackend:
        """A size in memory counts as a slice: it may become one."""
        backend = self._word("backend", CollectiveBackend, CollectiveBackend.AUTO)
        kind = SliceKind.MPS if device.mps_threads else SliceKind.MIG
        if why := backend_refusal(backend, [SliceKind.GPU if device.gpus else kind], ranks):
            self.refuse("backend", Problem.COMBINATION, why)
        return backend

    def _processes(self, device: DeviceRequest) -> int:
        """Ranks per replica: one per whole GPU under torchrun, else one."""
        gpus = device.gpus
        torchrun = self.data.get("launcher") == Launcher.TORCHRUN
        default = gpus if torchrun and gpus else 1
        processes = self._count("processes", default, 1, 64)
        if why := too_many_processes(gpus, processes):
            self.refuse(
                "processes",
                Problem.COMBINATION,
                Phrase("%(why)s; device.gpus is %(gpus)s", why=why, gpus=gpus),
            )
        if device.mps_threads and (why := too_few_threads(device.mps_threads, processes)):
            self.refuse("processes", Problem.COMBINATION, why)
        if processes > 1 and not torchrun:
            sentence = "only launcher torchrun starts several processes in one replica"
            self.refuse("processes", Problem.COMBINATION, sentence)
        return processes

    def _given(self, field: str) -> Any:
        if field not in self.data:
            self.refuse(field, Problem.MISSING, Phrase("%(field)s is needed", field=field))
        elif self.data[field] is None:
            self.refuse(field, Problem.TYPE, Phrase("%(field)s is needed, not null", field=field))
        return self.data.get(field)

    def _word(self, field: str, words: type[Word], default: Word) -> Word:
        value = self.data.get(field, default)
        try:
            return words(value)
        except ValueError:
            self.refuse(
                field, Problem.VALUE, Phrase("write one of %(words)s", words=", ".join(words))
            )
            return default

    def _count(self, field: str, default: int, least: int, most: int) -> int:
        return self._bounded(field, self.data.get(field, default), least, most)

    def _bounded(self, field: str, value: Any, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(
                field,
                Problem.TYPE,
                Phrase("write a whole number from %(least)s to %(most)s", least=least, most=most),
            )
            return least
        if not least <= value <= most:
            self.refuse(
                field,
                Problem.RANGE,
                Phrase("write a whole number from %(least)s to %(most)s", least=least, most=most),
            )
            return least
        return value

    def _amount(self, field: str, read: Callable[[object], int], default: int) -> int:
        if field not in self.data:
            return default
        try:
            return read(self.data[field])
        except ValueError as wrong:
            self.refuse(field, Problem.VALUE, wrong.args[0])
            return default
