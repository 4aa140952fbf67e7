#!/usr/bin/env python3
"""Stands for `nvidia-cuda-mps-control` as far as `tests.gpu.mps` speaks to it.

`-f` serves the folder CUDA_MPS_PIPE_DIRECTORY until told to quit; without, standard input is a
command for the daemon there. CONTROL_TRICK makes it misbehave: `dies` or `stays`.
"""

import os
import socket
import sys
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]) / "control"
TRICK = os.environ.get("CONTROL_TRICK", "")


def serve() -> int:
    if TRICK == "dies":
        sys.stderr.write("no GPU is here\n")
        return 7
    percentage = "100.0"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(PIPE))
        server.listen()
        while True:
            peer, _ = server.accept()
            with peer, peer.makefile("rw") as stream:
                command, *values = stream.readline().split()
                if command == "set_default_active_thread_percentage":
                    percentage = f"{float(values[0])}"
                if command.endswith("active_thread_percentage"):
                    stream.write(f"{percentage}\n")
            if command == "quit" and TRICK != "stays":
                PIPE.unlink()
                return 0


def tell() -> int:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(PIPE))
        except OSError:
            sys.stderr.write("Cannot find MPS control daemon process\n")
            return 1
        with client.makefile("rw") as stream:
            stream.write(sys.stdin.readline())
            stream.flush()
            sys.stdout.write(stream.read())
    return 0


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["-f"] else tell())
