"""What each tab of a job's page shows, beside what all of them do."""

from collections.abc import Mapping
from typing import Any

from portal.jobs.models import Job
from portal.web.job.log_tab import job_log
from portal.web.job.metrics import job_metrics
from portal.web.job.request_tab import job_spec
from portal.web.job.result import job_result
from portal.web.logs.address import LogView
from portal.web.request.form import limits


def tab_context(tab: str, job: Job, page: Mapping[str, Any], view: LogView) -> dict[str, Any]:
    """`page`: the job's story. Only the tab that is shown is read."""
    match tab:
        case "logs":
            events = page["events"]
            last = events[-1].pk if events else 0
            return {"log": job_log(view, page["attempts"], last_event=last)}
        case "metrics":
            return {"metrics": job_metrics(job, page["attempt"])}
        case "spec":
            return {"spec": job_spec(job, limits())}
        case "results":
            return {"result": job_result(job, page["attempts"])}
        case _:
            return {}
