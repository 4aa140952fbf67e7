"""The Spec tab: a job's request as a command, JSON and YAML, to submit it again."""

import json
from dataclasses import dataclass

from portal.accounts.models import User
from portal.cli.as_command import as_command_lines
from portal.jobs.models import Job
from portal.jobs.selectors import readable_request
from scheduler.core.request import parse_stored_request, request_as_dict, request_as_yaml


@dataclass(frozen=True, slots=True)
class JobSpec:
    cli: str
    json: str
    yaml: str


def job_spec(user: User, job: Job) -> JobSpec:
    request = parse_stored_request(readable_request(user, job))
    fields = request_as_dict(request)
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    return JobSpec(as_command_lines(fields), text, request_as_yaml(request))
