"""A small model trained by Accelerate; rank 0 ends with one line of JSON that has the loss.

The batch is that of the whole world, so the loss does not depend on the number of ranks."""

import json

import torch
from accelerate import Accelerator

SAMPLES, FEATURES, STEPS = 32, 8, 20


def main() -> None:
    accelerator = Accelerator()
    rank, world = accelerator.process_index, accelerator.num_processes
    torch.manual_seed(7)
    x, noise = torch.randn(SAMPLES, FEATURES), torch.randn(SAMPLES, 1)
    y = x.sum(dim=1, keepdim=True) + 0.1 * noise
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Linear(16, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))
    own = slice(rank * SAMPLES // world, (rank + 1) * SAMPLES // world)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[own]), y[own])
        accelerator.backward(loss)
        optimizer.step()
    whole = accelerator.reduce(loss.detach(), reduction="mean").item()
    if rank == 0:
        print(json.dumps({"event": "result", "world": world, "loss": whole}), flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
