"""The settings of Tessera itself, typed and documented, read from TESSERA_* variables.

Code takes the values that it needs as arguments; only entry points read `settings.PLATFORM`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Platform:
    """Each field is read from TESSERA_<NAME>. Times are in seconds, amounts in the named unit."""

    var: Path = Path("var")
    """Folder for logs, sockets of bells and, without PostgreSQL, the database."""
    redis_url: str = ""
    """URL of Redis, for bells and rate limits. Empty: sockets and files under `var`, which serve
    one machine only."""
    heartbeat_file: str = ""
    """The file that a worker or beat touches while it works, see `portal.heartbeat`. Empty:
    none."""
    direct_database_url: str = field(default="", repr=False)
    """PostgreSQL's own address, for the locks of workers, where TESSERA_DATABASE_URL is that of a
    pooler such as PgBouncer. Empty: the same."""
    image_allow: str = "*"
    """Comma-separated patterns of the image names that jobs may use."""
    default_time_limit_seconds: int = 4 * 3600
    max_time_limit_seconds: int = 7 * 24 * 3600
    max_replicas: int = 64
    default_quota_units: int = 8 * 56_000
    """The quota of a new project, in units (56,000 = one GPU)."""
    lease_seconds: int = 300
    """An agent out of contact this long stops its work, unless its policy says otherwise."""
    kill_grace_seconds: int = 30
    lease_margin_seconds: int = 15
    unreachable_seconds: int = 15
    """Added to `hold_seconds`: a node without a call for 15 + 20 = 35 s is unreachable and gets no
    work."""
    lost_seconds: int = 60
    """Added to `hold_seconds`: a node without a call for 60 + 20 = 80 s is lost."""
    agent_token_seconds: int = 900
    join_token_seconds: int = 3600
    hold_seconds: int = 20
    """The longest time a sync call stays open while nothing changes, with 20 % jitter."""
    prepare_timeout_seconds: int = 900
    """A gang that is not ready by then is stopped and placed again."""
    partition_dwell_seconds: int = 30
    """A GPU keeps its idle slices this long after it was carved or merged."""
    telemetry_seconds: int = 5
    """A node's sensor samples are stored at most this often."""
    trusted_proxies: int = 0
    """How many proxies in front of the portal add to X-Forwarded-For, see `portal.client_address`.
    0: the header is ignored."""
    oidc_issuer: str = ""
    """Issuer URL of the OpenID Connect provider, exactly as it is published. Empty: none."""
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_name: str = "your organisation"
    """The name on the button, after "Sign in with"."""
    saml_metadata_url: str = ""
    """URL of the SAML identity provider's metadata. Empty: no sign-in by SAML."""
    saml_entity_id: str = ""
    saml_name: str = "your organisation"
    saml_username: str = "urn:oid:0.9.2342.19200300.100.1.1"
    """The attribute with the suggested user name. The default is `uid`."""
    ldap_url: str = ""
    """URL of the directory: `ldap://` (with StartTLS) or `ldaps://`. Empty: no sign-in by LDAP."""
    ldap_people: str = ""
    """The search base of people, such as `ou=people,dc=example,dc=org`."""
    ldap_filter: str = "(uid=%(user)s)"
    ldap_id: str = "entryUUID"
    """The attribute with a person's permanent id; `objectGUID` in Active Directory."""
    ldap_bind_dn: str = ""
    """The account that searches the directory. Empty: anonymous."""
    ldap_bind_password: str = field(default="", repr=False)
    ldap_certificates: str = ""
    """A file with the certificate authorities for the directory. Empty: those of the system."""
    max_streams: int = 40
    """Event streams that one user may have open in one web process; each open page has one."""
    agent_threads: int = 8
    """Database threads for agents' calls in one web process."""
    rate_calls: str = "1200/min"
    """REST calls allowed for one user: a number per s, min, hour or day."""
    rate_submits: str = "1200/min"
    """Jobs that one user may submit over REST; a call that submits many counts each."""
    webhook_networks: str = ""
    """Comma-separated private networks that webhooks may reach, such as 10.20.0.0/16. Empty: public
    addresses only."""
    s3_bucket: str = ""
    """The bucket that keeps logs. Empty: the folder `var`, which web hosts must then share."""
    s3_endpoint: str = ""
    """URL of an S3-compatible store. Empty: AWS."""
    s3_region: str = ""
    s3_prefix: str = ""
    """Put before the names of all objects, for a bucket that others use too."""
    s3_access_key: str = ""
    """Empty: boto3 looks for credentials itself, such as those of the machine's role."""
    s3_secret_key: str = field(default="", repr=False)
    s3_timeout_seconds: int = 5
    """A store that takes longer for one answer is unavailable; the agent sends again."""
    log_retention_days: int = 0
    """Logs are removed this many days after their job ended. 0: never."""
    log_retention_mib: int = 0
    """When all logs are larger than this, those of the oldest jobs are removed. 0: no limit."""
    event_retention_days: int = 0
    """Events of ended jobs are removed this many days after the end. 0: never."""
    event_retention_mib: int = 0
    """When all events are larger than this, those of the oldest ended jobs are removed. 0: no
    limit."""
    queue_names: str = "own"
    """Whose names a user sees on the Queue page: `own`, those of their projects, or `all`."""


def platform_from(environ: Mapping[str, str]) -> Platform:
    """The settings from TESSERA_* variables. Raises ValueError naming a variable that is wrong."""
    values: dict[str, object] = {}
    for setting in fields(Platform):
        name = f"TESSERA_{setting.name.upper()}"
        if name in environ:
            values[setting.name] = _read(name, environ[name], type(setting.default))
    return Platform(**values)  # type: ignore[arg-type]  # each value was read as its field's type


def _read(name: str, text: str, kind: type) -> object:
    try:
        value = kind(text)
    except ValueError as error:
        raise ValueError(f"{name}={text!r} is not {kind.__name__}") from error
    # A negative number of days, say, would remove every log at once.
    if isinstance(value, int) and value < 0:
        raise ValueError(f"{name}={text!r} is below 0")
    return value
