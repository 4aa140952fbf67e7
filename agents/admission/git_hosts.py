"""The hosts in the policy file from which this node fetches the code of jobs.

git_hosts = ["github.com", "git.example:8443"]
"""

from collections.abc import Sequence

from agents.contract.documents import DesiredReplica
from agents.contract.git_source import (
    MAX_GIT_HOSTS,
    GitSourceError,
    endpoint_problem,
    is_endpoint_allowed,
    read_git_source,
)
from agents.contract.job_secrets import SecretForm


def git_hosts_problem(hosts: Sequence[str]) -> str:
    """What to write instead; empty if all is well."""
    if len(hosts) > MAX_GIT_HOSTS:
        return f"at most {MAX_GIT_HOSTS} hosts"
    return next((problem.text for each in hosts if (problem := endpoint_problem(each))), "")


def git_refusal(replica: DesiredReplica, hosts: Sequence[str]) -> str:
    """Why this node's policy does not allow the code of a replica; empty if it does."""
    code = replica.code_git
    if code is None:
        return ""
    try:
        source = read_git_source(code.source)
    except GitSourceError as error:
        return f"code: {error}"
    if not is_endpoint_allowed(source, hosts):
        return f"this node's policy does not allow code from {source.endpoint}"
    forms = {secret.name: secret.form for secret in replica.secrets}
    if code.key and forms.get(code.key) is not SecretForm.GIT:
        return f"code: the secret {code.key} is not one for git"
    return ""
