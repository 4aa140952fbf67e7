"""What the servers of models have in common: a model is split over the GPUs of one job.

Tensor parallelism moves data for every layer and stays within a replica, so within a node, unless
the command says otherwise (agents/combinations/ warns of it); pipeline parallelism joins the
replicas (vLLM's manual, "Parallelism and Scaling"). A process sees one MIG slice at most, so that
nothing is split over slices (vllm #17047).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from agents.contract.documents import SliceKind
from agents.contract.message import Message
from agents.launchers.base import Launch, Launcher, LaunchRefusal, LaunchRequest, launcher_call
from agents.launchers.command_options import (
    option_count,
    option_name,
    option_value,
    without_options,
)


@dataclass(frozen=True, slots=True)
class Split:
    """Into how many parts a model is split, and how many copies of it there are."""

    tensor: int
    pipeline: int
    copies: int

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.copies


class ModelServer(Launcher):
    """Adds to the command of a server how it splits its model, unless the command says so."""

    starts_several = False
    keeps_command = True
    title: ClassVar[str]
    """Its name in sentences."""
    example: ClassVar[str]
    """How its command begins."""
    tensor: ClassVar[tuple[str, ...]]
    """The spellings of this size; the first is the one that is added."""
    pipeline: ClassVar[tuple[str, ...]] = ()
    """Empty for a server that cannot be split over several replicas."""
    copies: ClassVar[tuple[str, ...]] = ()
    places: ClassVar[frozenset[str]] = frozenset()
    """Options that place a process in its world, which Tessera sets."""
    place_flags: ClassVar[frozenset[str]] = frozenset()
    """Those of them without a value."""

    @abstractmethod
    def place_options(self, launch: Launch) -> list[str]:
        """Where this replica is among several."""

    def listen_options(self, words: list[str]) -> list[str]:
        """By which it listens for other machines, as far as the command leaves it open."""
        return []

    def command(self, launch: Launch) -> list[str]:
        """The options stand right after the program: what follows is the user's, word for word."""
        replica = launch.replica
        words = list(replica.command)
        call = launcher_call(words)
        own = call.as_one_of(self.programs) if call else None
        if own is None:
            return words
        given = list(own.arguments)
        added = self.listen_options(given)
        gpus = sum(device.kind is SliceKind.GPU for device in replica.devices)
        if gpus:
            added += self._split_options(given, gpus, replica.world)
        if replica.world > 1:
            added += self.place_options(launch)
        return [*words[: len(words) - len(given)], *added, *given]

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        call = launcher_call(request.command)
        own = call.as_one_of(self.programs) if call else None
        if own is None and request.command:
            return self.command_refusal()
        given = list(own.arguments) if own else []
        return self._place_refusal(request, given) or self._split_refusal(request, given)

    def command_refusal(self) -> LaunchRefusal:
        """Of a command that is none of this server, or that it cannot start as requested."""
        why = Message(
            "launcher %(launcher)s needs a command such as: %(example)s",
            launcher=str(self.name),
            example=self.example,
        )
        return LaunchRefusal("command", why)

    def model_copies(self, words: list[str]) -> int:
        """Copies of the model with GPUs of their own."""
        return option_count(words, self.copies) or 1

    def _split_options(self, given: list[str], gpus: int, replicas: int) -> list[str]:
        split = self._split(given, gpus, replicas)
        sizes = ((self.tensor, split.tensor), (self.pipeline, split.pipeline))
        return [
            word
            for names, size in sizes
            if size > 1 and option_value(given, names) is None
            for word in (names[0], str(size))
        ]

    def _split(self, given: list[str], gpus: int, replicas: int) -> Split:
        """As the command says, and what it leaves out so that every GPU has its part."""
        whole = gpus * replicas
        copies = self.model_copies(given)
        tensor, pipeline = option_count(given, self.tensor), option_count(given, self.pipeline)
        if pipeline is None:
            pipeline = replicas if tensor is None else max(1, whole // (tensor * copies))
        if tensor is None:
            tensor = max(1, whole // (pipeline * copies))
        return Split(tensor, pipeline if self.pipeline else 1, copies)

    def _place_refusal(self, request: LaunchRequest, given: list[str]) -> LaunchRefusal | None:
        both = self.places | self.place_flags
        found = sorted({option_name(word) for word in given} & both)
        if not found:
            return None
        why = Message(
            "Tessera places the replicas: leave out %(options)s", options=", ".join(found)
        )
        return LaunchRefusal("command", why, self._without(request, given, self.places))

    def _split_refusal(self, request: LaunchRequest, given: list[str]) -> LaunchRefusal | None:
        gpus, replicas = request.gpus, request.replicas
        if replicas > 1 and not self.pipeline:
            why = Message(
                "%(program)s serves a model in one replica: request one replica with all GPUs",
                program=self.title,
            )
            return LaunchRefusal("replicas", why, {"replicas": 1})
        if not gpus:
            return self._slice_refusal(request, given)
        split = self._split(given, gpus, replicas)
        if split.gpus != gpus * replicas:
            why = Message(
                "the parallel sizes in the command need %(n)s GPUs, and the request has %(gpus)s",
                n=split.gpus,
                gpus=gpus * replicas,
            )
            sizes = {*self.tensor, *self.pipeline, *self.copies}
            return LaunchRefusal("command", why, self._without(request, given, sizes))
        return None

    def _slice_refusal(self, request: LaunchRequest, given: list[str]) -> LaunchRefusal | None:
        """A slice or a share is one device of one process. That no tensor is split over several is
        a row of agents/combinations/, for every program."""
        why = Message(
            "%(program)s cannot split a model over slices or shares of GPUs: request whole GPUs, "
            "or one replica with a model that fits",
            program=self.title,
        )
        if request.replicas > 1:
            return LaunchRefusal("replicas", why, {"replicas": 1})
        sizes = (self.pipeline, self.copies)
        if all((option_count(given, names) or 1) == 1 for names in sizes):
            return None
        return LaunchRefusal("command", why, self._without(request, given, {*sizes[0], *sizes[1]}))

    def _without(
        self, request: LaunchRequest, given: list[str], names: set[str] | frozenset[str]
    ) -> Mapping[str, Any]:
        program = request.command[: len(request.command) - len(given)]
        return {"command": [*program, *without_options(given, names, self.place_flags)]}
