"""Bytes that PyTorch keeps on each rank of a training step, under DDP, ZeRO 1, FSDP2 and tensor
parallelism: one line of JSON for each. Layers of GPT with a width of 512, in 32 bits, with Adam."""

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import gelu, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

LAYERS, HIDDEN, HEADS, SEQUENCE, BATCH = 4, 512, 8, 128, 2


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.queries, self.keys = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.values, self.out = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = self.first(x)
        parts = (self.queries(read), self.keys(read), self.values(read))
        size = HIDDEN // HEADS
        heads = [part.unflatten(-1, (-1, size)).transpose(1, 2) for part in parts]
        seen = scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.down(gelu(self.up(self.second(x))))


class Layers(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(Layer() for _ in range(LAYERS)))


def ddp():
    model = DistributedDataParallel(Layers())
    return model, torch.optim.Adam(model.parameters())


def zero1():
    model = DistributedDataParallel(Layers())
    return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)


def fsdp2():
    model = Layers()
    for layer in model:
        fully_shard(layer)
    return fully_shard(model), torch.optim.Adam(model.parameters())


def tp():
    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), Layers()
    columns, rows = ("queries", "keys", "values", "up"), ("out", "down")
    plan = dict.fromkeys(columns, ColwiseParallel()) | dict.fromkeys(rows, RowwiseParallel())
    for layer in model:
        parallelize_module(layer, mesh, plan)
    return model, torch.optim.Adam(model.parameters(), foreach=False)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What of it is on this rank."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def size(tensor: torch.Tensor) -> int:
    return local(tensor).numel() * local(tensor).element_size()


def measure(strategy) -> dict[str, int]:
    torch.manual_seed(0)
    model, optimizer = strategy()
    weights = {local(parameter).data_ptr() for parameter in model.parameters()}
    held: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        mine = local(tensor)
        # What FSDP gathers is a parameter, too.
        is_weight = isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)
        if not is_weight and mine.data_ptr() not in weights:
            storage = mine.untyped_storage()
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    # Held until the backward pass, so that no storage is counted twice.
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(torch.randn(BATCH, SEQUENCE, HIDDEN)).square().mean()
    loss.backward()
    optimizer.step()
    inner = getattr(optimizer, "optim", optimizer)
    states = [value for state in inner.state.values() for value in state.values()]
    return {
        "parameters": sum(size(parameter) for parameter in model.parameters()),
        "gradients": sum(size(p.grad) for p in model.parameters() if p.grad is not None),
        "states": sum(size(state) for state in states if state.dim()),
        "activations": sum(held.values()),
    }


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for strategy in (ddp, zero1, fsdp2, tp):
        line = {"strategy": strategy.__name__, "rank": rank, "world": world}
        print(json.dumps(line | measure(strategy)), flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    main()
