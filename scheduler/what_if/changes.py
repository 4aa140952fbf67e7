"""The changes of a what-if: each turns one Scenario into another."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from agents.contract.documents import GpuMode
from agents.contract.message import Message
from agents.contract.units import as_gpus
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.snapshot import GpuView, NodeView, QuotaView
from scheduler.virtual.values import Scenario
from scheduler.what_if.errors import ChangeRefusedError, list_names, require
from scheduler.what_if.layout import pin_layout
from scheduler.what_if.policy_options import policy_option

MAX_NODES = 1_000
# A hundred thousand GPUs, as in portal.quotas.services.
MAX_UNITS = 56_000 * 100_000


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """The quota of a project, or of one user in it, for one GPU model or ("") any."""

    kind: ClassVar[str] = "quota"
    project: str
    units: int
    user: str = ""
    model: str = ""

    def __str__(self) -> str:
        whose = f"{self.user} in {self.project}" if self.user else self.project
        of = f" of {self.model}" if self.model else ""
        return f"{whose} may hold {as_gpus(self.units, round_up=False)} GPUs{of}"

    def apply_to(self, scenario: Scenario) -> Scenario:
        limits = Message("A quota is 0 to %(most)s GPUs", most=as_gpus(MAX_UNITS))
        require(0 <= self.units <= MAX_UNITS, limits, "units")
        known = {o.project for o in scenario.owners} | {q.project for q in scenario.quotas}
        unknown = Message(
            "There is no project %(name)s. %(known)s",
            name=self.project,
            known=list_names(sorted(known)),
        )
        require(self.project in known, unknown, "project")
        key = (self.project, self.user, self.model)
        quotas = list(scenario.quotas)
        for index, quota in enumerate(quotas):
            if (quota.project, quota.user, quota.model) == key:
                quotas[index] = replace(quota, limit_units=self.units)
                return replace(scenario, quotas=tuple(quotas))
        made = QuotaView(self.project, self.user, self.units, 0, self.model)
        return replace(scenario, quotas=(*quotas, made))


@dataclass(frozen=True, slots=True)
class NodesAdded:
    """`count` more nodes like an existing one, all of them healthy."""

    kind: ClassVar[str] = "nodes"
    count: int
    like: str

    def __str__(self) -> str:
        return f"{self.count} more like {self.like}"

    def apply_to(self, scenario: Scenario) -> Scenario:
        limits = Message("Add 1 to %(most)s nodes", most=MAX_NODES)
        require(1 <= self.count <= MAX_NODES, limits, "count")
        like = _node(scenario, self.like, "like")
        taken = {node.name for node in scenario.nodes}
        numbers = (n for n in range(1, len(taken) + self.count + 1))
        free = [n for n in numbers if f"{like.name}+{n}" not in taken][: self.count]
        return replace(scenario, nodes=(*scenario.nodes, *(_another(like, n) for n in free)))


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    kind: ClassVar[str] = "without"
    node: str

    def __str__(self) -> str:
        return f"without {self.node}"

    def apply_to(self, scenario: Scenario) -> Scenario:
        gone = _node(scenario, self.node, "node")
        return replace(scenario, nodes=tuple(n for n in scenario.nodes if n.id != gone.id))


@dataclass(frozen=True, slots=True)
class LayoutPinned:
    """A GPU, by its index on its node, keeps exactly these MIG slices."""

    kind: ClassVar[str] = "layout"
    node: str
    gpu: int
    profiles: tuple[str, ...]

    def __str__(self) -> str:
        return f"GPU {self.gpu} of {self.node} pinned as {' + '.join(self.profiles)}"

    def apply_to(self, scenario: Scenario) -> Scenario:
        node = _node(scenario, self.node, "node")
        view = next((gpu for gpu in node.gpus if gpu.index == self.gpu), None)
        if view is None:
            unknown = Message(
                "%(node)s has no GPU %(index)s. %(known)s",
                node=self.node,
                index=self.gpu,
                known=list_names(gpu.index for gpu in node.gpus),
            )
            raise ChangeRefusedError(unknown, "gpu")
        made = pin_layout(view, self.profiles)
        gpus = tuple(made if gpu is view else gpu for gpu in node.gpus)
        return _with(scenario, replace(node, gpus=gpus))


@dataclass(frozen=True, slots=True)
class ModeSet:
    """The GPUs of a model begin in this mode. The planner may change the mode of an empty GPU, but
    only if it needs to, so this decides where the first jobs of each kind go."""

    kind: ClassVar[str] = "mode"
    model: str
    mode: str

    def __str__(self) -> str:
        return f"{self.model} begins in mode {self.mode}"

    def apply_to(self, scenario: Scenario) -> Scenario:
        words = [str(mode) for mode in GpuMode]
        choices = Message("A mode is one of %(words)s", words=", ".join(words))
        require(self.mode in words, choices, "mode")
        found = [g for node in scenario.nodes for g in node.gpus if _is(g, self.model)]
        models = {gpu_board(gpu).model for node in scenario.nodes for gpu in node.gpus}
        unknown = Message(
            "There is no GPU of %(model)s here. %(known)s",
            model=self.model,
            known=list_names(sorted(models)),
        )
        require(bool(found), unknown, "model")
        if self.mode == GpuMode.MIG:
            capable = all(gpu_board(gpu).supports_mig for gpu in found)
            require(capable, Message("%(model)s has no MIG", model=self.model), "mode")
        pinned = Message("A pinned GPU keeps its mode")
        require(not any(g.pinned for g in found), pinned, "model")
        mode = GpuMode(self.mode)
        for node in scenario.nodes:
            gpus = tuple(replace(g, mode=mode) if _is(g, self.model) else g for g in node.gpus)
            scenario = _with(scenario, replace(node, gpus=gpus))
        return scenario


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Another value for one option of the planner's policy."""

    kind: ClassVar[str] = "policy"
    name: str
    value: Any

    def __str__(self) -> str:
        return f"policy {self.name} = {self.value}"

    def apply_to(self, scenario: Scenario) -> Scenario:
        value = policy_option(scenario.policy, self.name, self.value)
        return replace(scenario, policy=replace(scenario.policy, **{self.name: value}))


ClusterChange = QuotaSet | NodesAdded | NodeRemoved | LayoutPinned | ModeSet | PolicySet


def _is(gpu: GpuView, model: str) -> bool:
    board = gpu_board(gpu)
    return model in (board.key, board.model)


def _node(scenario: Scenario, name: str, field: str) -> NodeView:
    found = next((node for node in scenario.nodes if node.name == name), None)
    if found is None:
        unknown = Message(
            "There is no node %(name)s. %(known)s",
            name=name,
            known=list_names(sorted(node.name for node in scenario.nodes)),
        )
        raise ChangeRefusedError(unknown, field)
    return found


def _with(scenario: Scenario, changed: NodeView) -> Scenario:
    nodes = tuple(changed if node.id == changed.id else node for node in scenario.nodes)
    return replace(scenario, nodes=nodes)


def _another(like: NodeView, number: int) -> NodeView:
    gpus = tuple(
        replace(
            gpu,
            id=f"{gpu.id}+{number}",
            healthy=True,
            slices=tuple(replace(s, id=f"{s.id}+{number}") for s in gpu.slices),
        )
        for gpu in like.gpus
    )
    name = f"{like.name}+{number}"
    return replace(
        like,
        id=f"{like.id}+{number}",
        name=name,
        gpus=gpus,
        available=True,
        unavailable_reason="",
        unavailable_key="",
    )
