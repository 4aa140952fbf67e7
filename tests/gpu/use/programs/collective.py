"""One rank of an all-reduce by PyTorch: `collective.py BACKEND RANK WORLD PORT [HOSTNAME]`.

All ranks use the first visible GPU, or none with gloo. HOSTNAME is taken in a namespace of this
process alone. Prints JSON lines.
"""

import ctypes
import datetime
import json
import os
import socket
import sys
import traceback

CLONE_NEWUTS = 0x0400_0000
TIMEOUT = datetime.timedelta(seconds=25)


def say(**words):
    print(json.dumps(words), flush=True)


def rename(hostname):
    """Raises OSError for a user who may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUTS):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    socket.sethostname(hostname)


def main(backend, rank, world, port, hostname=""):
    if hostname:
        rename(hostname)
    # Not before: torch starts threads, and each has the namespace of the thread that started it.
    import torch  # noqa: PLC0415
    from torch import distributed  # noqa: PLC0415

    say(pid=os.getpid(), hostname=socket.gethostname(), torch=torch.__version__,
        nccl=str(torch.cuda.nccl.version()))  # fmt: skip
    distributed.init_process_group(
        backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world,
        timeout=TIMEOUT,
    )  # fmt: skip
    device = "cpu" if backend == "gloo" else "cuda:0"
    value = torch.full((4,), float(rank + 1), device=device)
    distributed.all_reduce(value)
    say(sum=value.tolist())
    distributed.destroy_process_group()


if __name__ == "__main__":
    backend, rank, world, port, *hostname = sys.argv[1:]
    try:
        main(backend, int(rank), int(world), int(port), *hostname)
    except Exception:
        say(refusal=traceback.format_exc())
        sys.exit(1)
