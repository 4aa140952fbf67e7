"""Refused enrolments and hellos, and throttled calls of agents, as security events."""

from agents.contract.calls import ENROL_PATH, HELLO_PATH
from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.threads import run_in_thread
from portal.audit.codes import AuditAction
from portal.audit.security_events import refusal_count, refusals_write

ACTIONS = {ENROL_PATH: AuditAction.ENROLMENT_REFUSED, HELLO_PATH: AuditAction.HELLO_REFUSED}


async def refusal_record(path: str, refusal: ContractError) -> None:
    """Count a refused call. Only the few that write a line take a thread."""
    action = ACTIONS.get(path)
    if refusal.code is ContractErrorCode.TOO_FREQUENT:
        action = AuditAction.THROTTLED
    if action and (lines := refusal_count(action)):
        await run_in_thread(refusals_write, lines=lines, noun="node", reason=str(refusal.code))
