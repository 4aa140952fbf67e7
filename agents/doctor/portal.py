"""Checks of the way to the portal: does it answer, is its certificate trusted, do the clocks agree?

None of them blocks. A portal is away for other reasons than this machine, and jobs are safe.
"""

from datetime import UTC, datetime

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, ok, unknown, warn
from agents.doctor.machine import Machine

# An authority that renews by itself does so earlier: Let's Encrypt's clients 30 days before.
MIN_CERTIFICATE_DAYS = 14
# The portal refuses a hello at 300 s; an agent then follows the portal's clock. Times of logs and
# samples are read beside those of other nodes.
MAX_CLOCK_SECONDS = 10
NO_ADDRESS = unknown("No address of a portal is set.", "--portal URL, or TESSERA_PORTAL_URL")
CHECK_ADDRESS = "check the address, the network and the firewall; for a proxy set --proxy"


def _reach(machine: Machine) -> CheckResult:
    found = machine.portal
    if not found:
        return NO_ADDRESS
    failures = [r.failure for r in found if r.failure and not r.failure.is_certificate]
    if failures:
        why = "; ".join(failure.why for failure in failures)
        return warn(f"No answer from the portal: {why}.", failures[0].mend or CHECK_ADDRESS)
    if any(reading.failure is None for reading in found):
        return ok(f"The portal answers at {', '.join(r.address for r in found if not r.failure)}.")
    return unknown("The portal was not asked; see portal.certificate.")


def _certificate(machine: Machine) -> CheckResult:
    found = machine.portal
    if not found:
        return NO_ADDRESS
    untrusted = [r.failure for r in found if r.failure and r.failure.is_certificate]
    if untrusted:
        why = "; ".join(failure.why for failure in untrusted)
        return warn(f"{why[:1].upper()}{why[1:]}.", untrusted[0].mend)
    ends = [(r.expires_at, r.address) for r in found if r.expires_at is not None]
    if not ends:
        is_plain = all(reading.address.startswith("http://") for reading in found)
        plain = ok("The portal is called over plain HTTP, without a certificate.")
        return plain if is_plain else unknown("The portal did not answer; see portal.reach.")
    end, address = min(ends)
    days = (end - datetime.now(UTC)).days
    why = f"The certificate of {address} is trusted, and valid for {days} more days."
    return warn(why, "renew it on the portal's side") if days < MIN_CERTIFICATE_DAYS else ok(why)


def _clock(machine: Machine) -> CheckResult:
    found = machine.portal
    if not found:
        return NO_ADDRESS
    ahead = [r.clock_seconds for r in found if r.clock_seconds is not None]
    if not ahead:
        return unknown("The portal named no time; see portal.reach.")
    most = max(ahead, key=abs)
    if abs(most) <= MAX_CLOCK_SECONDS:
        return ok("This machine's clock and the portal's agree.")
    side = "ahead of" if most > 0 else "behind"
    why = f"This machine's clock is {abs(most):.0f} s {side} the portal's: job times are wrong."
    return warn(why, "sudo timedatectl set-ntp true  # here or on the portal, where it is off")


CHECKS = (
    Check(
        "portal.reach",
        "Does the portal answer at each of its addresses?",
        (DoctorVerdict.WARN,),
        "docs/agent-protocol.md; a call that every portal refuses in the contract's form",
        _reach,
    ),
    Check(
        "portal.certificate",
        "Is the portal's certificate trusted, and for how long?",
        (DoctorVerdict.WARN,),
        "X509_V_ERR codes of OpenSSL; Tessera's limit: 14 days",
        _certificate,
    ),
    Check(
        "portal.clock",
        "Do this machine's clock and the portal's agree?",
        (DoctorVerdict.WARN,),
        "RFC 9110, Date; Tessera's limit: 10 s",
        _clock,
    ),
)
