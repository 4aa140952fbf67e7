"""The template context of a job's page: what every tab shows, and what each tab adds."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.selectors import project_admins, projects_to_work_in
from portal.advice.job_utilisation import job_utilisation
from portal.allocations.selectors import attempts_of
from portal.audit.selectors import job_events
from portal.gang_networks.selectors import network_of
from portal.job_metrics.selectors import series_of
from portal.jobs.git_commits import attempt_commit, repository_of
from portal.jobs.images import attempt_digest
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.selectors import may_cancel
from portal.planning.offers import job_offers
from portal.planning.visible_reasons import visible_projects
from portal.quotas.limit_requests import last_limit_request
from portal.submission.replacement import may_replace
from portal.submission.retries import may_retry
from portal.volumes.caches import caches_on_nodes
from portal.web.job.apps import apps_card
from portal.web.job.bandwidth import shown_bandwidth
from portal.web.job.extension import can_extend
from portal.web.job.files import job_output
from portal.web.job.idle import hung_warning, idle_warning
from portal.web.job.log_tab import job_log, log_end
from portal.web.job.metrics import job_metrics
from portal.web.job.notebook import retention_sentence
from portal.web.job.place import job_place
from portal.web.job.ranks_network import ranks_network
from portal.web.job.reported import reported_metrics
from portal.web.job.request_card import request_card
from portal.web.job.request_tab import job_spec
from portal.web.job.result import job_result
from portal.web.job.smaller_request import smaller_request
from portal.web.job.start_progress import start_progress
from portal.web.job.status_panel import status_panel
from portal.web.job.time_gauge import time_gauge
from portal.web.job.time_profile import profiling_address, shown_profile
from portal.web.job.timeline import timeline
from portal.web.job.utilisation import shown_utilisation
from portal.web.logs.address import LogView
from portal.web.logs.lines import LogLine
from portal.web.wording.labels import image_digest_text
from scheduler.core.model.states import JOB_ALLOCATED, JOB_FINAL, JobStatus

TABS = ("logs", "ranks", "metrics", "events", "spec", "results", "files", "terminal")
# Log lines shown beside a failure, over all replicas.
FAILURE_LINES = 20
# The newest events that a page shows; REST pages through all of them.
MAX_EVENTS = 500


def job_context(user: User, job: Job) -> dict[str, Any]:
    """What every tab shows around its own part."""
    newest = list(job_events(job).order_by("-id")[:MAX_EVENTS])
    events = newest[::-1]
    attempts = attempts_of(job)
    attempt: Attempt | None = attempts[-1] if attempts else None
    replicas = list(attempt.replicas.all()) if attempt else []
    is_final = JobStatus(job.status) in JOB_FINAL
    may_request = projects_to_work_in(user).exists()
    panel = status_panel(
        *(job, attempt, replicas, visible_projects(user)),
        may_replace=may_replace(user, job),
        is_own=job.owner_id == user.pk,
        approvers=_approvers(job),
    )
    placed = replicas if is_final or JobStatus(job.status) in JOB_ALLOCATED else []
    return {
        "job": job,
        "steps": timeline(events, start_progress(job, replicas)),
        "card": request_card(job),
        "gauge": time_gauge(job, timezone.now()),
        "idle": idle_warning(job, newest) or hung_warning(job, newest),
        "kept": retention_sentence(job),
        "apps": apps_card(user, job),
        "may_extend": can_extend(user, job),
        "place": job_place(user, job, placed, is_final=is_final),
        "placed_replicas": placed,
        "network": network_of(attempt) if attempt and not is_final else None,
        "caches": caches_on_nodes((row.node for row in placed if row.node), job.project.slug),
        "events": events,
        "event_count": len(events) if len(events) < MAX_EVENTS else job_events(job).count(),
        "attempts": attempts,
        "attempt": attempt,
        "image_digest": image_digest_text(attempt_digest(attempt)) if attempt else "",
        "repository": repository_of(job),
        "code_commit": attempt_commit(attempt) if attempt else "",
        "replicas": replicas,
        "is_final": is_final,
        "output": job_output(job) if is_final else None,
        "smaller": smaller_request(job, attempt) if attempt and is_final else None,
        "profiling_address": profiling_address(job) if may_request else "",
        "may_cancel": not is_final and may_cancel(user, job),
        "may_request": may_request,
        "may_retry": may_request and may_retry(user, job),
        "panel": panel,
        **_limit_request(user, job),
        "failure_lines": failure_lines(replicas) if job.status == JobStatus.FAILED else [],
    }


def _approvers(job: Job) -> list[str]:
    """Who may approve it; [] unless it waits for that."""
    if JobStatus(job.status) is not JobStatus.AWAITING_APPROVAL:
        return []
    return project_admins(job.project_id)


def _limit_request(user: User, job: Job) -> dict[str, Any]:
    """Whether its owner may ask for the limit that it waits for, and what came of the last time."""
    if job.owner_id != user.pk or not job_offers(job).asks:
        return {}
    return {"may_ask": True, "limit_request": last_limit_request(job.pk)}


def failure_lines(replicas: Sequence[Replica]) -> Sequence[LogLine]:
    """The last log lines of the replicas that failed, or of all if none failed by itself. The tabs
    of the log and of the results say why there may be none."""
    failed = [r for r in replicas if r.exit_code not in (0, None) or r.memory_kill]
    return log_end(failed or replicas, FAILURE_LINES).lines


def tab_context(
    tab: str, user: User, job: Job, page: Mapping[str, Any], view: LogView
) -> dict[str, Any]:
    """What one tab adds to `page`, the context of all tabs. Other tabs are not read."""
    match tab:
        case "logs":
            events = page["events"]
            last_event = events[-1].pk if events else 0
            return {"log": job_log(view, page["attempts"], last_event=last_event)}
        case "metrics":
            series = series_of([job])
            return {
                "metrics": job_metrics(page["attempt"]),
                "reported": reported_metrics(job, series),
                "utilisation": shown_utilisation(job_utilisation(job, series)),
            }
        case "spec":
            attempt = page["attempt"]
            network = ranks_network(user, job, attempt) if attempt else []
            return {"spec": job_spec(user, job), "rank_networks": network}
        case "results":
            return {
                "result": job_result(job, page["attempts"]),
                "bandwidth": shown_bandwidth(job, page["replicas"]),
                "profile": shown_profile(job),
            }
        case _:
            return {}
