"""A small model trained over MPI; rank 0 ends with one line of JSON that has the loss.

The batch is that of the whole world, so the loss does not depend on the number of ranks."""

import json

import torch
from mpi4py import MPI

SAMPLES, FEATURES, STEPS = 32, 8, 20


def main() -> None:
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    torch.manual_seed(7)
    x, noise = torch.randn(SAMPLES, FEATURES), torch.randn(SAMPLES, 1)
    y = x.sum(dim=1, keepdim=True) + 0.1 * noise
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    own = slice(rank * SAMPLES // size, (rank + 1) * SAMPLES // size)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[own]), y[own])
        loss.backward()
        for parameter in model.parameters():
            parameter.grad = torch.tensor(world.allreduce(parameter.grad.numpy())) / size
        optimizer.step()
    whole = world.allreduce(loss.item()) / size
    if rank == 0:
        print(json.dumps({"event": "result", "world": size, "loss": whole}), flush=True)


if __name__ == "__main__":
    main()
