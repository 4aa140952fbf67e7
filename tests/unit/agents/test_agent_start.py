"""What an agent needs to start, and says where it is missing."""

import os
import subprocess
import sys
from pathlib import Path

from agents.simdriver.state import new_node
from agents.simdriver.store import Store

PORTAL = ("--portal", "https://portal.example")
ROOT = Path(__file__).parents[3]


def test_an_agent_without_its_engine_ends_with_what_to_do(tmp_path):
    """Its service starts it again."""
    var = tmp_path / "agent"
    var.mkdir(mode=0o700)
    (var / "node-id").write_text("4f5d")
    state = tmp_path / "driver.json"
    Store(state).create(new_node(board="H200-141GB", gpus=1, seed=7, latency=False))
    command = [sys.executable, "-m", "agents", "run", *PORTAL, "--name", "gpu01", "--var", str(var)]
    env = {
        "PATH": os.environ["PATH"],
        "TESSERA_SIMULATED_DRIVER": str(state),
        "DOCKER_HOST": f"unix://{tmp_path}/no.sock",
        "TESSERA_JOIN_TOKN": "a slip",
    }
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert "no Docker Engine answers" in done.stderr
    assert "sudo systemctl start docker" in done.stderr
    assert "did you mean TESSERA_JOIN_TOKEN?" in done.stderr and "a slip" not in done.stderr
