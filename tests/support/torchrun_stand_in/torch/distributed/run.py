"""A stand-in for torch.distributed.run: starts the ranks of this node as PET_* says, and no more.

For tests on machines without PyTorch; `test_torchrun.py` runs the real one.
"""

import os
import subprocess
import sys


def main() -> int:
    processes = int(os.environ["PET_NPROC_PER_NODE"])
    first = int(os.environ["PET_NODE_RANK"]) * processes
    world = {
        "WORLD_SIZE": str(int(os.environ["PET_NNODES"]) * processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": os.environ["PET_MASTER_ADDR"],
        "MASTER_PORT": os.environ["PET_MASTER_PORT"],
        "TORCHELASTIC_RUN_ID": os.environ["PET_RDZV_ID"],
    }
    words = sys.argv[1:]
    program = words[1:] if words[0] == "--no-python" else [sys.executable, *words]
    ranks = [
        subprocess.Popen(
            program,
            env=os.environ | world | {"RANK": str(first + local), "LOCAL_RANK": str(local)},
        )
        for local in range(processes)
    ]
    return max(rank.wait() for rank in ranks)


sys.exit(main())
