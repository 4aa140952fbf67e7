"""The key by which the replicas of one attempt know each other, where their launcher wants one.

It is derived each time and stored nowhere: a node gets it with the secrets of its replica.
"""

from django.utils.crypto import salted_hmac

from agents.contract.job_secrets import GANG_KEY, DesiredSecret, SecretValue
from agents.launchers.registry import LAUNCHERS
from scheduler.core.request.values import JobRequest

SALT = "tessera.gang_key"


def desired_gang_key(request: JobRequest) -> tuple[DesiredSecret, ...]:
    """What a node is told to ask for; nothing where no key is needed."""
    shares = LAUNCHERS[request.launcher].shares_key and request.replicas > 1
    return (DesiredSecret(GANG_KEY),) if shares else ()


def gang_key(request: JobRequest, attempt: int) -> tuple[SecretValue, ...]:
    """`attempt`: the row's primary key. Each attempt has another."""
    if not desired_gang_key(request):
        return ()
    value = salted_hmac(SALT, str(attempt), algorithm="sha256").hexdigest()
    return (SecretValue(GANG_KEY, value),)
