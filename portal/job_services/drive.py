"""Brings services to what they are to be: counts their calls, starts copies and stops them.

A service row is locked first and then, by the services that it calls, those of its jobs. What is
read of calls and health may be a few seconds old: the next round corrects it.
"""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, transaction

from agents.contract.message import Message, read_message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_services.models import JobService, ServiceCopy, ServiceLoad
from portal.job_services.replacement import CopyState, copy_changes, wait_after
from portal.job_services.scaling import Scale, ScaleBounds, next_scale
from portal.job_services.selectors import current_loads, ready_jobs, service_with_canary
from portal.job_services.services import canary_end
from portal.job_services.values import copy_request, unused_port
from portal.jobs.services import job_cancel
from portal.live.bell import ring
from portal.submission.services import job_submit
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.request import InvalidRequest, RequestLimits

# A copy that has taken calls for so long was no failure of its start.
STEADY = timedelta(minutes=1)
# Web processes know within this time that a copy gets no new calls.
MIN_LEAVE = timedelta(seconds=5)
# Calls that are still open then are cut.
MAX_LEAVE = timedelta(minutes=2)
# Before its time limit a copy is replaced: by so much, or by a fourth of the limit.
BEFORE_LIMIT = timedelta(minutes=15)
OLD_LOAD = timedelta(hours=1)

log = logging.getLogger(__name__)


def services_drive(*, now: datetime, limits: Callable[[], RequestLimits]) -> int:
    """One round over all services; how many there are. One that cannot be driven does not hold up
    the others."""
    keys = list(JobService.objects.to_drive().order_by("pk").values_list("pk", flat=True))
    for pk in keys:
        try:
            service_drive(pk=pk, now=now, limits=limits)
        except DatabaseError as error:
            log.warning("S-%s is driven again later: %s", pk, error)
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            log.exception("S-%s cannot be driven", pk)
    if keys:
        ServiceLoad.objects.filter(reported_at__lt=now - OLD_LOAD).delete()
    return len(keys)


def service_drive(*, pk: int, now: datetime, limits: Callable[[], RequestLimits]) -> None:
    """One round over one service. Its canary is ended in a transaction of its own, as rows of
    services are locked one at a time."""
    canary = None
    with transaction.atomic():
        rows = JobService.objects.filter(pk=pk).select_related("project", "owner").lock_rows()
        if rows:
            canary = _Round(rows[0], now, limits).run()
    if canary is not None:
        canary_end(pk=canary)


class _Round:
    """A service with its copies, as of one moment; its row is locked."""

    def __init__(
        self, service: JobService, now: datetime, limits: Callable[[], RequestLimits]
    ) -> None:
        self.service, self.now, self.limits = service, now, limits
        rows = ServiceCopy.objects.filter(service=service).open().select_related("job")
        self.copies = list(rows.order_by("id"))
        self.ready = ready_jobs([service.pk])[service.pk]
        self.calls: Counter[int] = Counter()
        self.waiting = 0
        # The calls of a canary that is promoted come over once it ends.
        canary = service.canary_id if service.is_canary_promoted else None
        for load in current_loads([service.pk] + ([canary] if canary else []), now):
            self.waiting += load.waiting
            self.calls.update({int(job): count for job, count in load.open_calls.items()})

    def run(self) -> int | None:
        """The key of the canary, if it is to end now."""
        self._watch_canary()
        for copy in self.copies:
            if JobStatus(copy.job.status) in JOB_FINAL:
                self._note_end(copy)
        self.copies = [copy for copy in self.copies if copy.ended_at is None]
        self._replace_late_ones()
        if self.service.ended_at is None:
            self._scale()
        staying = [copy for copy in self.copies if copy.leaves_at is None]
        states = [
            CopyState(copy.pk, self._is_current(copy), copy.job_id in self.ready)
            for copy in staying
        ]
        changes = copy_changes(states, self.service.copies)
        for copy in staying:
            if copy.pk in changes.leave:
                self._let_leave(copy)
        if self.service.next_start_at is None or self.service.next_start_at <= self.now:
            self._start(changes.start)
        if not changes.start and all(state.is_ready for state in states):
            self.service.problem = None
        for copy in self.copies:
            self._stop_if_idle(copy)
        self.service.save()
        is_replaced = len(states) >= self.service.copies and all(
            state.is_current and state.is_ready for state in states
        )
        return self.service.canary_id if self.service.is_canary_promoted and is_replaced else None

    def _watch_canary(self) -> None:
        """Give no more calls to one that has ended, or of which a copy has failed since its
        percentage was set."""
        row, canary = self.service, self.service.canary
        if canary is None:
            return
        if canary.ended_at is not None:
            row.clear_canary()
        elif row.canary_percent and canary.all_failures > row.canary_failures:
            row.canary_percent = 0
            problem = read_message(canary.problem) or Message("one of its copies has failed")
            row.canary_problem = Message(
                "%(canary)s gets no more calls: %(problem)s", canary=canary.label, problem=problem
            ).as_dict()
        else:
            return
        ring(f"service:{row.pk}")

    def _note_end(self, copy: ServiceCopy) -> None:
        copy.ended_at = self.now
        copy.save(update_fields=["ended_at"])
        ring(f"service:{self.service.pk}")
        if copy.leaves_at is None:
            status = Message(copy.job.status)
            message = Message("%(job)s ended as %(status)s", job=copy.job.label, status=status)
            self._note_failure(copy, message)

    def _note_failure(self, copy: ServiceCopy, message: Message) -> None:
        """Wait longer after each failure in a row."""
        was_steady = copy.ready_at is not None and self.now - copy.ready_at >= STEADY
        self.service.failures = 1 if was_steady else self.service.failures + 1
        self.service.all_failures += 1
        wait = wait_after(self.service.failures)
        self.service.next_start_at = self.now + wait
        self.service.problem = Message(
            "%(what)s; another copy starts %(seconds)s s after that (failures in a row: %(n)s)",
            what=message,
            seconds=int(wait.total_seconds()),
            n=self.service.failures,
        ).as_dict()

    def _replace_late_ones(self) -> None:
        """Copies that run and are not ready for too long leave, as do those whose time limit leaves
        them none to become so: a failure, or a limit shorter than a start would submit jobs without
        end and say nothing."""
        late = timedelta(seconds=self.service.start_seconds)
        for copy in self.copies:
            is_running = copy.job.status == JobStatus.RUNNING and copy.job.started_at
            if copy.leaves_at or copy.job_id in self.ready or not is_running:
                continue
            # Since it runs, or since it ceased to be ready (`check_record`).
            since = max(filter(None, (copy.job.started_at, copy.unready_at)))
            waited = self.now - since
            if waited >= late or self._is_near_limit(copy):
                self._let_leave(copy)
                seconds = int(min(waited, late).total_seconds())
                message = Message(
                    "%(job)s did not answer at %(path)s for %(seconds)s s",
                    job=copy.job.label,
                    path=self.service.health_path,
                    seconds=seconds,
                )
                self._note_failure(copy, message)

    def _scale(self) -> None:
        row = self.service
        # A canary without a copy would get no calls, and start none.
        stable = None if row.min_copies else service_with_canary(row)
        least = 1 if stable and stable.canary_percent else row.min_copies
        bounds = ScaleBounds(
            least,
            row.max_copies,
            row.calls_per_copy,
            timedelta(seconds=row.cool_down_seconds),
        )
        scale = Scale(row.copies, row.low_since, row.low_copies)
        calls = self.waiting + self.calls.total()
        scale = next_scale(scale, bounds, calls=calls, now=self.now)
        row.copies, row.low_since, row.low_copies = scale.copies, scale.low_since, scale.low_copies

    def _is_current(self, copy: ServiceCopy) -> bool:
        return copy.generation == self.service.generation and not self._is_near_limit(copy)

    def _is_near_limit(self, copy: ServiceCopy) -> bool:
        """Whether its time limit will end it so soon that another one has to take its place."""
        if copy.job.deadline_at is None or copy.job.started_at is None:
            return False
        limit = copy.job.deadline_at - copy.job.started_at
        return self.now >= copy.job.deadline_at - min(BEFORE_LIMIT, limit / 4)

    def _let_leave(self, copy: ServiceCopy) -> None:
        copy.leaves_at = self.now
        copy.save(update_fields=["leaves_at"])
        ring(f"service:{self.service.pk}")

    def _stop_if_idle(self, copy: ServiceCopy) -> None:
        """Stop a copy that leaves, once no call is left that would be cut. `ready_at` tells whether
        it ever took one."""
        if copy.leaves_at is None or copy.job.status == JobStatus.STOPPING:
            return
        gone = self.now - copy.leaves_at
        is_idle = gone >= MIN_LEAVE and not self.calls[copy.job_id]
        if copy.ready_at is None or is_idle or gone >= MAX_LEAVE:
            job_cancel(job=copy.job, actor=self.service.label)

    def _start(self, count: int) -> None:
        taken = set(
            ServiceCopy.objects.open().filter(service__port=0).values_list("port", flat=True)
        )
        for _ in range(count):
            port = self.service.port or unused_port(taken, self.service.pk * 64)
            try:
                with transaction.atomic():
                    copy = self._submitted(port)
            except (Refused, InvalidRequest) as refused:
                self.service.failures += 1
                self.service.next_start_at = self.now + wait_after(self.service.failures)
                self.service.problem = _refusal(refused).as_dict()
                return
            taken.add(port)
            self.copies.append(copy)
            ring(f"service:{self.service.pk}")

    def _submitted(self, port: int) -> ServiceCopy:
        """Raises InvalidRequest, and what `job_submit` raises."""
        row = self.service
        if not row.owner.is_active:
            sentence = (
                "The owner of the service is deactivated: another member has to create it anew"
            )
            raise Refused(ErrorCode.USER_INACTIVE, sentence)
        request = copy_request(
            row.request, name=row.name, port=port, project=row.project.slug, limits=self.limits()
        )
        job = job_submit(user=row.owner, request=request, actor=row.label)
        return ServiceCopy.objects.create(
            service=row, job=job, generation=row.generation, port=port
        )


def _refusal(refused: Refused | InvalidRequest) -> Message:
    if isinstance(refused, Refused):
        return refused.message
    first = refused.errors[0]
    return Message("%(field)s: %(problem)s", field=first.field, problem=first.message)
