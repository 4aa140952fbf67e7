"""The summary of a profiler, as its hook writes it."""

import json
from typing import Any

SUMMARY: dict[str, Any] = {
    "version": 1,
    "steps": 10,
    "rank": 0,
    "world": 2,
    "torch": "2.7.1",
    "device": "NVIDIA H200",
    "by_device": True,
    "window_us": 2_000_000,
    "compute_us": 1_000_000,
    "communication_us": 600_000,
    "copy_us": 100_000,
    "idle_us": 300_000,
    "communication_total_us": 800_000,
    "loading_us": 0,
    "operators": [
        {"name": "gemm", "category": "compute", "calls": 400, "us": 900_000},
        {"name": "nccl <b>", "category": "communication", "calls": 20, "us": 800_000},
    ],
}


def a_summary(**fields: Any) -> bytes:
    """As a file."""
    return json.dumps(SUMMARY | fields).encode()
