"""The request that an advice leads to: what of the request form it fills in. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from agents.contract.launcher_names import LauncherName
from portal.advice.fits import DeviceFit
from portal.advice.question import AdviceQuestion, Task
from portal.submission.pair_measurements import COMMAND, TIME_LIMIT
from scheduler.advisor.quantisation import Quantisation
from scheduler.advisor.transformer import Recompute

MAX_NAME = 63
LLAMA_CPP = frozenset(each for each in Quantisation if each.startswith("q"))


def request_fields(question: AdviceQuestion, fit: DeviceFit) -> dict[str, Any]:
    """Fields of a request by name: name, device, replicas, launcher and a command to complete.
    Image and project are the user's own."""
    return {
        "name": _name(question),
        "device": _device(fit),
        "replicas": fit.nodes,
        "launcher": "torchrun" if question.is_training and fit.gpus > 1 else "none",
        "command": _command(question, fit),
    }


def network_test_fields(fit: DeviceFit, image: str) -> dict[str, Any]:
    """Fields of a request that measures the network between these GPUs with nccl-tests. `image`:
    of the settings; empty for the user's own."""
    fields = {
        "name": "network-test",
        "device": _device(fit),
        "replicas": fit.nodes,
        "launcher": str(LauncherName.NCCL_TESTS),
        "command": list(COMMAND),
        "time_limit": TIME_LIMIT,
    }
    return fields | ({"image": image} if image else {})


def form_query(project: str, fields: Mapping[str, Any]) -> str:
    """The query of the request form's address that fills in these fields."""
    return urlencode({"project": project, "fill": json.dumps(fields, sort_keys=True)})


def _name(question: AdviceQuestion) -> str:
    words = f"{question.task}-{question.model}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:MAX_NAME].strip("-")


def _device(fit: DeviceFit) -> dict[str, Any]:
    device = fit.device
    if device.profile:
        return {"mig": device.profile.name, "models": [device.model]}
    return {"gpus": fit.gpus // fit.nodes, "models": [device.model]}


def _command(question: AdviceQuestion, fit: DeviceFit) -> list[str]:
    """A model server, or a program of the user's with usual flags; torchrun is the launcher's."""
    if question.task is Task.INFERENCE:
        return _server(question, fit.gpus)
    words = ["python", "train.py", "--model", question.model, "--method", str(question.task)]
    # Each GPU has one sequence at least.
    words += ["--batch-size", str(max(question.batch, fit.gpus))]
    if question.sequence:
        words += ["--sequence-length", str(question.sequence)]
    return words + (["--gradient-checkpointing"] if question.recompute is Recompute.FULL else [])


def _server(question: AdviceQuestion, gpus: int) -> list[str]:
    """vLLM, or llama.cpp for its own formats, whose files it alone reads."""
    sequences, tokens = question.concurrency, question.sequence
    if question.quantisation in LLAMA_CPP:
        words = ["llama-server", "--model", f"{question.model}-{question.quantisation}.gguf"]
        return [*words, "--parallel", str(sequences), "--ctx-size", str(sequences * tokens)]
    words = ["vllm", "serve", question.model, "--max-model-len", str(tokens)]
    words += ["--max-num-seqs", str(sequences)]
    if question.quantisation is Quantisation.FP8:
        words += ["--quantization", "fp8"]
    return words + (["--tensor-parallel-size", str(gpus)] if gpus > 1 else [])
