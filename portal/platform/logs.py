"""Where logs are kept, and for how long."""

from dataclasses import dataclass

from agents.configuration.declaration import Secrecy, setting
from agents.configuration.value_kinds import url, whole_number
from portal.platform.readers import MIGRATE, PLANNERS, WEB, WORKER


@dataclass(frozen=True)
class LogSettings:
    s3_bucket: str = setting(
        "",
        "The bucket that keeps logs. Empty: the folder `var`, which web hosts must then share.",
        readers=(WEB, WORKER, MIGRATE),
    )
    s3_endpoint: str = setting(
        "",
        "URL of an S3-compatible store. Empty: AWS.",
        kind=url("https", "http"),
        readers=PLANNERS,
    )
    s3_region: str = setting("", "The bucket's region.", readers=PLANNERS)
    s3_prefix: str = setting(
        "",
        "Put before the names of all objects, for a bucket that others use too.",
        readers=PLANNERS,
    )
    s3_access_key: str = setting(
        "",
        "Empty: boto3 looks for credentials itself, such as those of the machine's role.",
        secrecy=Secrecy.WHOLE,
        readers=PLANNERS,
    )
    s3_secret_key: str = setting(
        "", "The secret of that key.", secrecy=Secrecy.WHOLE, readers=PLANNERS
    )
    s3_timeout_seconds: int = setting(
        5,
        "A store that takes longer for one answer is unavailable; the agent sends again.",
        kind=whole_number(1),
        readers=PLANNERS,
    )
    log_retention_days: int = setting(
        0, "Logs are removed this many days after their job ended. 0: never.", readers=PLANNERS
    )
    log_retention_mib: int = setting(
        0,
        "When all logs are larger than this, those of the oldest jobs are removed. 0: no limit.",
        readers=PLANNERS,
    )
    event_retention_days: int = setting(
        0,
        "Events of ended jobs are removed this many days after the end. 0: never.",
        readers=PLANNERS,
    )
    event_retention_mib: int = setting(
        0,
        "When all events are larger than this, those of the oldest ended jobs are removed. 0: no "
        "limit.",
        readers=PLANNERS,
    )
    audit_retention_days: int = setting(
        0,
        "Lines of the audit trail are removed at this age, whole days at a time. 0: never.",
        readers=PLANNERS,
    )
