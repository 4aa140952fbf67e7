"""The programs that change this machine's network, called with argument lists, never by a shell."""

import json
import shutil
from typing import Any

from agents.host.programs import SEARCH_PATH, ProgramResult, run_program

IP, BRIDGE, NFT, UNSHARE, WG, WIREGUARD_GO = "ip", "bridge", "nft", "unshare", "wg", "wireguard-go"
COMMAND_SECONDS = 20.0


class NetworkRefused(Exception):
    """Why the machine's network is not as it was to become."""


def installed(program: str) -> str:
    """Its absolute path; empty if it is not installed."""
    return shutil.which(program, path=SEARCH_PATH) or ""


def network_command(program: str, *arguments: str, input_text: str = "") -> str:
    """What it prints. `input_text`: its standard input. Raises NetworkRefused."""
    done = try_network_command(program, *arguments, input_text=input_text)
    if done.failure:
        raise NetworkRefused(done.failure)
    return done.output


def try_network_command(program: str, *arguments: str, input_text: str = "") -> ProgramResult:
    path = installed(program)
    if not path:
        return ProgramResult(f"{program} is not installed")
    return run_program(COMMAND_SECONDS, path, *arguments, input_text=input_text)


def ip_objects(*arguments: str) -> list[dict[str, Any]]:
    """What `ip -json` lists. Raises NetworkRefused."""
    try:
        found = json.loads(network_command(IP, "-json", *arguments) or "[]")
    except ValueError as error:
        raise NetworkRefused(f"ip prints no JSON: {error}") from error
    return [each for each in found if isinstance(each, dict) and each]
