"""The distributed sum as a PyTorch program, for launcher torchrun: `torch_sum.py [--rounds N]`.

It uses NCCL on GPUs and gloo without. Each rank checks every sum and ends with one line of JSON.
MIG slices use gloo, because NCCL does not connect slices of one GPU reliably.
"""

import argparse
import json
import os
import sys

import torch
import torch.distributed as dist

ELEMENTS = 4_096


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    device, backend = place()
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    right = all(is_right(rank, world, number, device) for number in range(rounds))
    result = {"rank": rank, "world": world, "backend": backend, "rounds": rounds}
    print(json.dumps(result | {"event": "result", "allreduce_ok": right}), flush=True)
    dist.destroy_process_group()
    return 0 if right else 1


def place() -> tuple[torch.device, str]:
    """The device and the backend. A process sees at most one MIG slice, whatever its local rank."""
    if not torch.cuda.is_available():
        return torch.device("cpu"), "gloo"
    if os.environ.get("TESSERA_DEVICES", "").startswith("MIG-"):
        return torch.device("cuda", 0), "gloo"
    return torch.device("cuda", int(os.environ["LOCAL_RANK"])), "nccl"


def is_right(rank: int, world: int, number: int, device: torch.device) -> bool:
    """Each rank contributes rank + number in every element, so the sum over all ranks is known."""
    values = torch.full((ELEMENTS,), float(rank + number), device=device)
    dist.all_reduce(values)
    expected = float(sum(other + number for other in range(world)))
    return bool(torch.all(values == expected))


if __name__ == "__main__":
    sys.exit(main())
