"""A small model that learns alike on any number of ranks, for launcher torchrun: `torch_loss.py`.

Data and weights come from seeds, and each rank takes an equal share of one batch, so that the loss
is that of a single process up to rounding. Rank 0 saves; started again, all go on where it saved.
It ends with one line of JSON.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAMPLES, INPUTS, HIDDEN = 64, 16, 32
SAVE_EVERY = 5
HOME = Path(os.environ.get("TESSERA_CHECKPOINT_DIR", "."))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    inputs, wanted = (part[rank::world] for part in data())
    own = network()
    optimizer = torch.optim.SGD(own.parameters(), lr=0.05, momentum=0.9)
    losses = resume(own, optimizer)
    began = len(losses)
    model = DistributedDataParallel(own)
    while len(losses) < given.steps:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        losses.append(whole.item() / world)
        if rank == 0 and len(losses) % SAVE_EVERY == 0:
            save(own, optimizer, losses)
        time.sleep(given.pause)
    if rank == 0:
        result = {"event": "result", "world": world, "began": began, "losses": losses}
        print(json.dumps(result), flush=True)
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


def save(model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[float]) -> None:
    """`saved.json` comes last, by a rename: the checkpoint is complete."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
    torch.save(state, HOME / "state.pt")
    (HOME / "saved.json.new").write_text(json.dumps({"step": len(losses)}))
    (HOME / "saved.json.new").rename(HOME / "saved.json")


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    """The losses so far. Every rank goes on at the checkpoint of rank 0."""
    found: list[dict[str, Any] | None] = [None]
    if dist.get_rank() == 0 and (HOME / "saved.json").exists():
        found = [torch.load(HOME / "state.pt")]
    dist.broadcast_object_list(found)
    if found[0] is None:
        return []
    model.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return list(found[0]["losses"])


if __name__ == "__main__":
    sys.exit(main())
