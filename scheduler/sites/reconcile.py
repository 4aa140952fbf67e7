"""One round with the sites: their reports go into rows, the orders of rows go to them."""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

from django.utils import timezone

from portal.jobs.models import OWN_NODES, Attempt
from portal.leases.services import run_exclusively
from portal.live.bell import ring_plan, ring_site
from portal.sites.observations import observations_apply
from portal.sites.silence import silence_note
from scheduler.sites.base import Site, SiteUnreachableError
from scheduler.sites.registry import all_sites, site_named

log = logging.getLogger(__name__)


def sites_observe(now: datetime) -> None:
    """Apply the report of every site. A site that fails does not hold up the others."""
    for site in all_sites():
        _under_lease(site, lambda site: site_observe(site, now))
    names = [site.name for site in all_sites()]
    unknown = Attempt.objects.open().exclude(site__in=names).order_by()
    for name in unknown.values_list("site", flat=True).distinct():
        _all_silent(name, now)


def sites_drive(now: datetime) -> None:
    """Have every site carry out what the rows order, and mark the devices of ended attempts."""
    for site in all_sites():
        _under_lease(site, _drive)


def site_lease(name: str) -> str:
    """The name of the lease under which a round with a site runs."""
    return f"site {name}"


def site_reconcile(name: str) -> None:
    """Both for one site, as soon as something has changed there. The caller has its lease."""
    if site := site_named(name):
        now = timezone.now()
        if _succeeds(site, lambda site: site_observe(site, now)):
            _succeeds(site, _drive)


def site_observe(site: Site, now: datetime) -> None:
    """Raises SiteUnreachableError, noted as silence. An order that does not arrive is not noted: a
    site that reports but takes no orders would go silent and answer again in every round."""
    try:
        report = site.observe(now)
    except SiteUnreachableError:
        _all_silent(site.name, now)
        raise
    observations_apply(report.observations, site=site.name, actor=report.actor)
    silence_note(site=site.name, silent=report.silent, at=now)


def _drive(site: Site) -> None:
    site.drive()
    if site.release():
        ring_plan()


def _under_lease(site: Site, work: Callable[[Site], None]) -> None:
    """Work with one site at a time: of two rounds at once, the one that read the rows earlier could
    order again what the other one has just cancelled and forgotten. If a round is in progress, it
    is followed by another. Own nodes lock their own rows."""
    if site.name == OWN_NODES:
        _succeeds(site, work)
        return
    run_exclusively(
        name=site_lease(site.name),
        work=partial(_succeeds, site, work),
        rounds=1,
        ring_again=lambda: ring_site(site.name),
    )


def _succeeds(site: Site, work: Callable[[Site], None]) -> bool:
    """Do the work. A failure is logged, so that the other sites get their round."""
    try:
        work(site)
    except SiteUnreachableError as error:
        log.warning("site %s does not answer: %s", site.name, error)
        return False
    except Exception:
        log.exception("site %s failed", site.name)
        return False
    return True


def _all_silent(name: str, now: datetime) -> None:
    attempts = Attempt.objects.open().filter(site=name).values_list("pk", flat=True)
    silence_note(site=name, silent=dict.fromkeys(attempts, name), at=now)
