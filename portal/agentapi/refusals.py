"""Refused enrolments and hellos, as security events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.threads import run_in_thread
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record


@asynccontextmanager
async def refusals_recorded(action: AuditAction) -> AsyncIterator[None]:
    """Record a refusal inside the block as `action`, or as throttled calls, and raise it again."""
    try:
        yield
    except ContractError as refused:
        if refused.code is ContractErrorCode.TOO_FREQUENT:
            action = AuditAction.THROTTLED
        await run_in_thread(_record, action=action, reason=str(refused.code))
        raise


def _record(action: AuditAction, reason: str) -> None:
    security_event_record(action, noun="node", reason=reason)
