"""Templates that a new portal begins with: `manage.py ready_templates`, once.

Every command is one line, as the request form has one line for it. What is downloaded at the start
is said in the description.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from portal.accounts.models import User
from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.audit.transitions import SYSTEM
from portal.catalogue.models import Template
from portal.catalogue.services import template_save
from scheduler.core.request import InvalidRequest, RequestLimits

PYTORCH = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"

BURN = (
    "import time, torch; a, b, c = torch.rand(3, 8192, 8192, device='cuda', dtype=torch.half); "
    "start = time.time(); "
    "[(print(round(time.time() - start), 's of 300 s', flush=True), "
    "[torch.mm(a, b, out=c) for _ in range(2000)], torch.cuda.synchronize()) "
    "for _ in iter(lambda: time.time() - start < 300, False)]"
)
DDP = (
    "import os, torch; torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); "
    "torch.distributed.init_process_group('nccl'); "
    "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1).cuda()); "
    "optimizer = torch.optim.SGD(model.parameters(), 0.01); "
    "x = torch.rand(4096, 1024, device='cuda'); y = x.mean(1, keepdim=True); "
    "[(optimizer.zero_grad(), (loss := ((model(x) - y) ** 2).mean()).backward(), optimizer.step(), "
    "i % 50 or print('rank', os.environ['RANK'], 'step', i, 'loss', loss.item(), flush=True)) "
    "for i in range(501)]; torch.distributed.destroy_process_group()"
)
ALL_REDUCE = (
    "import os, time, torch, torch.distributed as dist; "
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); dist.init_process_group('nccl'); "
    "x = torch.rand(2**28, device='cuda'); [dist.all_reduce(x) for _ in range(5)]; "
    "torch.cuda.synchronize(); t = time.time(); [dist.all_reduce(x) for _ in range(20)]; "
    "torch.cuda.synchronize(); n = dist.get_world_size(); "
    "gb = 20 * x.nbytes * 2 * (n - 1) / n / 1e9; "
    "print(f'rank {dist.get_rank()} of {n}: bus bandwidth {gb / (time.time() - t):.0f} GB/s'); "
    "dist.destroy_process_group()"
)
VLLM = (
    "from vllm import LLM; llm = LLM('facebook/opt-125m', gpu_memory_utilization=0.5); "
    "[print(repr(a.prompt), '->', repr(a.outputs[0].text)) "
    "for a in llm.generate(['A GPU is', 'The capital of France is', 'Two plus two is'])]"
)
OLLAMA = (
    "ollama serve >/tmp/serve.log 2>&1 & until ollama list >/dev/null 2>&1; do sleep 1; done; "
    "ollama pull llama3.2:1b >/dev/null 2>&1 && ollama run llama3.2:1b 'Why is the sky blue?'"
)


@dataclass(frozen=True, slots=True)
class ReadyTemplate:
    name: str
    description: str
    request: dict[str, Any]


def _request(name: str, image: str, command: list[str], **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, "command": command, "time_limit": "15m"} | more


READY_TEMPLATES = (
    ReadyTemplate(
        "GPU check (nvidia-smi)",
        "The smallest device that is free. Prints what its driver says about it, and ends.",
        _request(
            "gpu-check",
            "nvidia/cuda:12.8.1-base-ubuntu24.04",
            ["nvidia-smi"],
            device={"memory": "4GiB"},
        ),
    ),
    ReadyTemplate(
        "GPU burn (PyTorch)",
        "One whole GPU multiplies matrices for five minutes: for power, clocks and cooling.",
        _request("gpu-burn", PYTORCH, ["python", "-c", BURN], device={"gpus": 1}),
    ),
    ReadyTemplate(
        "PyTorch DDP",
        "Two GPUs train a small model together, by torchrun. Put your program in its place.",
        _request("ddp", PYTORCH, ["python", "-c", DDP], launcher="torchrun", device={"gpus": 2}),
    ),
    ReadyTemplate(
        "NCCL test (all-reduce)",
        "Two GPUs sum 1 GiB twenty times. Prints the bandwidth of the bus between them.",
        _request(
            "nccl-test",
            PYTORCH,
            ["python", "-c", ALL_REDUCE],
            launcher="torchrun",
            device={"gpus": 2},
        ),
    ),
    ReadyTemplate(
        "vLLM batch",
        "Answers a list of prompts and ends; it serves no port. Downloads facebook/opt-125m.",
        _request(
            "vllm-batch",
            "vllm/vllm-openai:v0.9.1",
            ["python3", "-c", VLLM],
            device={"memory": "16GiB"},
        ),
    ),
    ReadyTemplate(
        "Ollama batch",
        "Answers one prompt and ends; it serves no port. Downloads llama3.2:1b.",
        _request(
            "ollama-batch",
            "ollama/ollama:0.9.0",
            ["sh", "-c", OLLAMA],
            device={"memory": "8GiB"},
        ),
    ),
)


def ready_templates_add(
    *, limits: RequestLimits, templates: Iterable[ReadyTemplate] = READY_TEMPLATES
) -> list[Template]:
    """Save these as shared templates of the installation itself, on a portal that never had one:
    a person who deleted them has decided. One whose image is not allowed is left out."""
    if Template.objects.exists():
        return []
    if AuditEntry.objects.filter(noun="template", action=AuditAction.TEMPLATE_SAVE).exists():
        return []
    return [row for row in (_add(limits, ready) for ready in templates) if row]


def _add(limits: RequestLimits, ready: ReadyTemplate) -> Template | None:
    try:
        return template_save(
            actor=User(username=SYSTEM, is_superuser=True),  # of no row: nobody can sign in as it
            name=ready.name,
            description=ready.description,
            request=ready.request,
            limits=limits,
        )
    except InvalidRequest:
        return None
