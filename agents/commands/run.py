"""`agents run`: wire the parts together, and end in order."""

import argparse
import asyncio
import json
import logging
import signal
import sys
import threading
from typing import Any

from agents.client import Client
from agents.contract.documents import RuntimeKind
from agents.contract.errors import ContractError
from agents.identity import Identity
from agents.journal import Journal, JournalError
from agents.node import NodeLoop
from agents.nvml import Nvml, NvmlFailure
from agents.observe import Hardware
from agents.occupied import Occupied, occupy
from agents.policy import Policy, PolicyError, read_policy
from agents.runtime.base import Runtime, RuntimeFailure
from agents.runtime.docker import DockerRuntime
from agents.runtime.process import ProcessRuntime
from agents.settings import Settings, settings_from
from agents.simdriver.install import install
from agents.sync import Conversation, Retired, enrol

CANNOT_START = (
    NvmlFailure,
    RuntimeFailure,
    PolicyError,
    JournalError,
    Occupied,
    ContractError,
    FileNotFoundError,
)
PLAIN = frozenset(vars(logging.makeLogRecord({})))


class OneLine(logging.Formatter):
    """Each record as one JSON line, with what was given in `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {k: v for k, v in vars(record).items() if k not in PLAIN}
        line: dict[str, Any] = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **extra,
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def main(options: argparse.Namespace) -> int:
    """0 where it ended as it was told to, 1 where it could not start."""
    settings = settings_from(options)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(agent(settings))
    except CANNOT_START as error:
        logging.getLogger("agents").error("cannot_start", extra={"why": str(error)})
        return 1
    except Retired as retired:
        logging.getLogger("agents").warning("retired", extra={"why": str(retired)})
        return 0
    return 0


async def agent(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. What runs on the node goes on, unless the settings say stop."""
    settings.var.mkdir(parents=True, exist_ok=True)
    if settings.simulated_driver is not None:
        install(settings.simulated_driver)
    policy = read_policy(settings.policy)
    lock = occupy(settings.var)
    identity, journal = Identity(settings.var), Journal(settings.var / "journal.sqlite3")
    nvml, client = Nvml(), Client(settings.portal)
    await enrol(client, identity, settings.name, settings.join_token)
    runtime = _runtime(settings, policy, identity.node_id)
    conversation = Conversation(client, identity, journal, runtime)
    hardware = Hardware(
        nvml,
        runtime,
        settings.var,
        simulated=settings.simulated_driver is not None,
        accepted=frozenset(policy.accepted_checks),
    )
    node = NodeLoop(identity.node_id, journal, hardware, runtime, policy, conversation.say)
    conversation.node = node
    await asyncio.to_thread(node.round)
    reconciling = threading.Thread(target=node.run, name="reconcile")
    reconciling.start()
    try:
        await _until_signal(conversation)
    finally:
        node.stop()
        reconciling.join()
        if settings.stop_jobs_on_exit:
            node.stop_jobs()
        await client.close()
        runtime.close()
        journal.close()
        nvml.close()
        lock.close()


def _runtime(settings: Settings, policy: Policy, node_id: str) -> Runtime:
    if settings.runtime is RuntimeKind.PROCESS:
        return ProcessRuntime(settings.var / "replicas")
    return DockerRuntime(settings.var / "logs", node_id, policy)


async def _until_signal(conversation: Conversation) -> None:
    loop = asyncio.get_running_loop()
    talking = asyncio.create_task(conversation.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, talking.cancel)
    try:
        await talking
    except asyncio.CancelledError:
        logging.getLogger("agents").info("stopped")
