"""The codes in the source of the agent: what replicas fail with, and problems of GPUs."""

import ast
import re
from collections.abc import Collection
from pathlib import Path

from agents.mps.control import ControlCode
from agents.mps.refusals import ShareCode
from agents.nvml.errors import NvmlCode

AGENTS = Path(__file__).resolve().parents[2] / "agents"
# They report nothing to a portal.
APART = {"doctor", "simdriver", "drill"}
OF_REPLICAS = ("ReplicaFailure", "RuntimeFailure")


def codes_of_agents(makers: Collection[str] = (*OF_REPLICAS, "PartitionProblem")) -> set[str]:
    """What agents give as the code of a failure or a problem; `makers`: of these classes."""
    found = {str(code) for kind in (ShareCode, ControlCode, NvmlCode) for code in kind}
    for path in AGENTS.rglob("*.py"):
        if APART.isdisjoint(path.parts):
            found |= _codes(ast.parse(path.read_text("utf-8")), makers)
    return {code for code in found if re.fullmatch("[a-z_]+", code)}


def _codes(tree: ast.Module, makers: Collection[str]) -> set[str]:
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in makers
    ]
    first = [argument for call in calls for argument in call.args[:2]]
    return {str(each.value) for each in first if isinstance(each, ast.Constant) and each.value}
