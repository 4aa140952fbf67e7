"""The advice to one user: what holds the task, what they may use of it, and when it could start."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agents.contract.message import Message
from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.advice.devices import cluster_devices
from portal.advice.fits import DeviceFit, device_fits
from portal.advice.question import AdviceQuestion, InvalidQuestion
from portal.advice.requests import request_fields
from portal.advice.speed import ServingSpeed, serving_speed
from portal.advice.training import TrainingRun, training_run, training_ways
from portal.availability.selectors import availability_for
from portal.planning.inventory_view import current_inventory
from portal.planning.requests import waiting_job_from_request
from portal.planning.snapshot import quota_views
from portal.prices.price_table import HourPrice, PriceTable
from portal.prices.selectors import current_prices
from portal.submission.dry_run import TRIAL_ID, RequestStart, expected_starts
from portal.submission.limits import request_limits
from scheduler.advisor.errors import AdvisorError
from scheduler.core.request import InvalidRequest, JobRequest, parse_request

# Of the devices that hold the task, the planner is asked for so many.
MAX_STARTS = 4
# On a larger cluster the planner takes a while, and the request form asks it for the chosen one.
MAX_TRIED_GPUS = 2_000
# Images decide nothing here: the request form has the user's own.
ANY_IMAGE = "image:latest"


@dataclass(frozen=True, slots=True)
class DeviceAdvice:
    """One kind of device."""

    fit: DeviceFit
    fields: dict[str, Any]
    """The request that it leads to; empty where it does not fit."""
    request: JobRequest | None = None
    """The same, checked for the project; None without a project or with an obstacle."""
    obstacle: Message | None = None
    """Why the project could never have so many, though they would fit."""
    start: RequestStart | None = None
    """When the request could start; None if the planner was not asked."""

    @property
    def is_usable(self) -> bool:
        return self.fit.fits and self.obstacle is None


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer to one question."""

    question: AdviceQuestion
    project: str
    """The slug of the project that limits and starts are of; empty for who works in none."""
    devices: tuple[DeviceAdvice, ...]
    """Usable ones first, the cheapest first."""
    prices: PriceTable
    """Of an hour of each device."""

    @property
    def best(self) -> DeviceAdvice | None:
        """The cheapest usable one."""
        return next((each for each in self.devices if each.is_usable), None)

    @property
    def shown(self) -> DeviceAdvice | None:
        """The one whose memory is told by part: the best, or what comes nearest."""
        return self.best or next(iter(self.devices), None)

    def price(self, fit: DeviceFit) -> HourPrice | None:
        """Of an hour of one of its devices."""
        return self.prices.of(fit.device.board, fit.device.profile)

    def run(self, fit: DeviceFit) -> TrainingRun | None:
        """How long it takes there, and what it costs."""
        return training_run(self.question, fit, self.price(fit))

    def ways(self) -> list[TrainingRun]:
        """What else could be done with the best kind of device."""
        best = self.best
        return training_ways(self.question, best.fit, self.price(best.fit)) if best else []

    def speed(self, fit: DeviceFit) -> ServingSpeed | None:
        """How fast it serves there, and what a million tokens cost."""
        return serving_speed(self.question, fit, self.price(fit))


def advice_for(*, user: User, question: AdviceQuestion, project: str = "") -> Advice:
    """`project`: one that the user works in; any other counts as none named. Changes nothing.

    Raises InvalidQuestion where the task is none for the model."""
    slugs = list(projects_to_work_in(user).order_by("slug").values_list("slug", flat=True))
    slug = project if project in slugs else next(iter(slugs), "")
    cluster = availability_for(user, projects=slugs)
    try:
        fits = device_fits(question, cluster_devices(cluster))
    except AdvisorError as error:
        raise InvalidQuestion({"task": error.message}) from error
    devices = [DeviceAdvice(fit, request_fields(question, fit) if fit.fits else {}) for fit in fits]
    if slug:
        devices = _checked(user, slug, devices)
        if cluster.total.gpus <= MAX_TRIED_GPUS:
            devices = _with_starts(user, devices)
    devices.sort(key=lambda each: (not each.is_usable, not each.fit.fits))
    return Advice(question, slug, tuple(devices), current_prices())


def _checked(user: User, project: str, devices: Iterable[DeviceAdvice]) -> list[DeviceAdvice]:
    """With the request of each that fits, or why this portal, its nodes or quotas rule it out."""
    capacity = current_inventory().capacity.with_quotas(quota_views())
    limits = replace(request_limits(), image_allow=("*",))
    found = []
    for each in devices:
        if not each.fields:
            found.append(each)
            continue
        body = {**each.fields, "project": project, "image": ANY_IMAGE}
        try:
            request = parse_request(body, limits)
        except InvalidRequest as refused:
            found.append(replace(each, obstacle=refused.errors[0].message))
            continue
        job = waiting_job_from_request(
            request, id=TRIAL_ID, project=project, user=user.username, queued_at=0
        )
        reason = capacity.infeasible_reason(job)
        if reason is None:
            found.append(replace(each, request=request))
        else:
            found.append(replace(each, obstacle=reason.message))
    return found


def _with_starts(user: User, devices: list[DeviceAdvice]) -> list[DeviceAdvice]:
    """With the planner's answer for the first usable ones."""
    requests = {i: each.request for i, each in enumerate(devices) if each.request is not None}
    first = dict(list(requests.items())[:MAX_STARTS])
    starts = dict(zip(first, expected_starts(user=user, requests=[*first.values()]), strict=True))
    return [replace(each, start=starts.get(i)) for i, each in enumerate(devices)]
