"""A small model trained by DeepSpeed; rank 0 ends with one line of JSON that has the loss.

The batch is that of the whole world, so the loss does not depend on the number of ranks."""

import argparse
import json
import os

import deepspeed
import torch
import torch.distributed as dist

SAMPLES, FEATURES, STEPS = 32, 8, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local_rank", type=int, help="DeepSpeed's launcher gives it")
    parser.parse_args()
    world = int(os.environ["WORLD_SIZE"])
    torch.manual_seed(7)
    x, noise = torch.randn(SAMPLES, FEATURES), torch.randn(SAMPLES, 1)
    y = x.sum(dim=1, keepdim=True) + 0.1 * noise
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Linear(16, 1))
    config = {"train_batch_size": SAMPLES, "train_micro_batch_size_per_gpu": SAMPLES // world}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=config, dist_init_required=True
    )
    rank = dist.get_rank()
    own = slice(rank * SAMPLES // world, (rank + 1) * SAMPLES // world)
    for _ in range(STEPS):
        loss = torch.nn.functional.mse_loss(engine(x[own]), y[own])
        engine.backward(loss)
        engine.step()
    whole = loss.detach().clone()
    dist.all_reduce(whole)
    if rank == 0:
        result = {"event": "result", "world": dist.get_world_size(), "loss": whole.item() / world}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
