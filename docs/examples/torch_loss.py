"""A small model that learns alike on any number of ranks, for launcher torchrun: `torch_loss.py`.

Data and weights come from seeds, and each rank takes an equal share of one batch, so that the loss
is that of a single process up to rounding. Rank 0 ends with one line of JSON.
"""

import argparse
import json
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAMPLES, INPUTS, HIDDEN = 64, 16, 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    inputs, wanted = (part[rank::world] for part in data())
    model = DistributedDataParallel(network())
    learn = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        learn.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        learn.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        losses.append(whole.item() / world)
    if rank == 0:
        print(json.dumps({"event": "result", "world": world, "losses": losses}), flush=True)
    dist.destroy_process_group()
    return 0


def data() -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(20_261_126)
    inputs = random.standard_normal((SAMPLES, INPUTS), np.float32)
    wanted = np.sin(inputs.sum(axis=1, keepdims=True))
    return torch.from_numpy(inputs), torch.from_numpy(wanted)


def network() -> nn.Module:
    """With weights of numpy, because PyTorch's own differ between its versions."""
    random = np.random.default_rng(7)
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.from_numpy(random.normal(0, 0.2, weights.shape)))
    return model


if __name__ == "__main__":
    sys.exit(main())
