"""Refused enrolments, hellos and tokens, and throttled calls of agents, as security events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.threads import run_in_thread
from portal.audit.codes import AuditAction
from portal.audit.security_events import refusal_count, refusals_write
from portal.inventory.credentials import TokenExpired

UNRECORDED = frozenset({ContractErrorCode.TOO_FREQUENT, ContractErrorCode.EPOCH_STALE})


@asynccontextmanager
async def refusals_recorded(action: AuditAction) -> AsyncIterator[None]:
    """Record a refusal inside the block as `action`, and raise it again. Throttled calls are left
    to the endpoint, which records those of all calls; the end of a session is routine."""
    try:
        yield
    except ContractError as refusal:
        if refusal.code not in UNRECORDED and not isinstance(refusal, TokenExpired):
            await refusal_record(action, refusal)
        raise


async def refusal_record(action: AuditAction, refusal: ContractError) -> None:
    """Count a refused call. Only the few that write a line take a thread."""
    if lines := refusal_count(action):
        await run_in_thread(refusals_write, lines=lines, noun="node", reason=str(refusal.code))
