"""Work for the GPU by PyTorch: `torch_work.py WHAT SECONDS`. Prints JSON lines.

`matmul`: large bf16 products, back to back. `profiled`: the same under torch.profiler, for users
who profile; prints which events the profiler saw, and how often.
"""

import json
import os
import sys
import time
from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile

SIZE = 8_192
PER_LINE = 50


def say(**words):
    print(json.dumps(words | {"at": time.time()}), flush=True)


def matmul(seconds):
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.mm(a, b)
    torch.cuda.synchronize()
    say(pid=os.getpid(), torch=torch.__version__, device=torch.cuda.get_device_name(0))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        for _ in range(PER_LINE):
            torch.mm(a, b)
        torch.cuda.synchronize()
        took = time.monotonic() - began
        say(products=PER_LINE, tera_per_second=round(2 * SIZE**3 * PER_LINE / took / 1e12, 1))


def profiled(seconds):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        matmul(seconds)
    names = Counter(event.name for event in profiler.events())
    say(events=names.total(), most=names.most_common(10))


if __name__ == "__main__":
    {"matmul": matmul, "profiled": profiled}[sys.argv[1]](float(sys.argv[2]))
