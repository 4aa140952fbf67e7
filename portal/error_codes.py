"""The closed set of error codes, and one table of what depends on a code alone.

Codes are part of the REST API: clients compare them, so they never change.
"""

from dataclasses import dataclass
from enum import StrEnum


class ErrorCode(StrEnum):
    """Why a call was refused."""

    ADDRESS_FORBIDDEN = "address_forbidden"
    AFTER_FAILED = "after_failed"
    AFTER_UNKNOWN = "after_unknown"
    APP_ANSWER_BROKEN = "app_answer_broken"
    APP_NOT_ANSWERING = "app_not_answering"
    APP_UNREACHABLE = "app_unreachable"
    APPROVAL = "approval"
    AUTHENTICATION_FAILED = "authentication_failed"
    BUDGET = "budget"
    BUDGET_INVALID = "budget_invalid"
    BULK_REFUSED = "bulk_refused"
    BUSY = "busy"
    CANARY_INVALID = "canary_invalid"
    CHANGE_INVALID = "change_invalid"
    CHANGES_UNKNOWN = "changes_unknown"
    CODE_UNKNOWN = "code_unknown"
    DATABASE_UNAVAILABLE = "database_unavailable"
    DAYS_INVALID = "days_invalid"
    DESCRIPTION_INVALID = "description_invalid"
    DRAIN_STALE = "drain_stale"
    EMAIL_INVALID = "email_invalid"
    EVENTS_GONE = "events_gone"
    FILE_CHANGED = "file_changed"
    FILE_INCOMPLETE = "file_incomplete"
    FILE_OFFSET = "file_offset"
    FILES_NEEDED = "files_needed"
    FILES_REMOVED = "files_removed"
    FORBIDDEN = "forbidden"
    GPU_BUSY = "gpu_busy"
    HAS_RUN = "has_run"
    HOST_UNKNOWN = "host_unknown"
    IDEMPOTENCY_KEY_INVALID = "idempotency_key_invalid"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    IDEMPOTENCY_RUNNING = "idempotency_running"
    IMAGE_NOT_LISTED = "image_not_listed"
    IMPOSSIBLE = "impossible"
    INVALID = "invalid"
    INVALID_FIELD = "invalid_field"
    KINDS_INVALID = "kinds_invalid"
    LABELS_INVALID = "labels_invalid"
    LAST_ADMIN = "last_admin"
    LIMIT_INVALID = "limit_invalid"
    LIST_EMPTY = "list_empty"
    LOG_REMOVED = "log_removed"
    MALFORMED = "malformed"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MODEL_INVALID = "model_invalid"
    NAME_INVALID = "name_invalid"
    NAME_TAKEN = "name_taken"
    NO_JOBS = "no_jobs"
    NO_TEST_IMAGE = "no_test_image"
    NODE_AWAY = "node_away"
    NODE_BUSY = "node_busy"
    NODE_JOINED = "node_joined"
    NODE_NOT_FROZEN = "node_not_frozen"
    NODE_RETIRED = "node_retired"
    NONE_CHOSEN = "none_chosen"
    NOT_ACCEPTABLE = "not_acceptable"
    NOT_AUTHENTICATED = "not_authenticated"
    NOT_AWAITING = "not_awaiting"
    NOT_FOUND = "not_found"
    NOT_OVER = "not_over"
    NOT_RUNNING = "not_running"
    NOT_WAITING = "not_waiting"
    OVER_PROJECT_LIMIT = "over_project_limit"
    OVER_TIME_LIMIT = "over_time_limit"
    PAIR_BUSY = "pair_busy"
    PAIR_INVALID = "pair_invalid"
    PATH_INVALID = "path_invalid"
    PATTERN_INVALID = "pattern_invalid"
    PENDING_LIMIT = "pending_limit"
    POLICY_INVALID = "policy_invalid"
    PORT_CLOSED = "port_closed"
    PRICE_INVALID = "price_invalid"
    PROJECT_ONLY = "project_only"
    PROJECT_UNKNOWN = "project_unknown"
    RANGE_BEYOND_END = "range_beyond_end"
    REASON_MISSING = "reason_missing"
    REGISTRY_INVALID = "registry_invalid"
    REQUEST_INVALID = "request_invalid"
    REQUEST_UNREADABLE = "request_unreadable"
    ROLE_INVALID = "role_invalid"
    ROOT_INVALID = "root_invalid"
    SCOPE_MISSING = "scope_missing"
    SERVER_ERROR = "server_error"
    SHARE_INVALID = "share_invalid"
    SECRET_INVALID = "secret_invalid"  # noqa: S105 - no secret
    SECRET_UNKNOWN = "secret_unknown"  # noqa: S105 - no secret
    SLUG_INVALID = "slug_invalid"
    SLUG_TAKEN = "slug_taken"
    STORE_MISMATCH = "store_mismatch"
    STORE_OBJECT_MISSING = "store_object_missing"
    STORE_OTHER_HOST = "store_other_host"
    STORE_UNAVAILABLE = "store_unavailable"
    STORED_LIMIT = "stored_limit"
    TAINTS_INVALID = "taints_invalid"
    THROTTLED = "throttled"
    TOO_LARGE = "too_large"
    TOO_MANY_ITEMS = "too_many"
    TOO_MANY_JOBS = "too_many_jobs"
    TOO_MANY_TOKENS = "too_many_tokens"
    TOO_MANY_WEBHOOKS = "too_many_webhooks"
    TTL_INVALID = "ttl_invalid"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    URL_INVALID = "url_invalid"
    VERSION_MISSING = "version_missing"
    USER_INACTIVE = "user_inactive"
    VERSION_STALE = "version_stale"
    VOLUME_IN_USE = "volume_in_use"
    VOLUME_UNKNOWN = "volume_unknown"
    WEBHOOK_OFF = "webhook_off"
    WHAT_IF_OVER = "what_if_over"


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """What a refusal with a code has in common with every other one of that code."""

    status: int
    """The HTTP status."""
    title: str
    """A short summary, in English, as RFC 9457 wants it for each type of problem."""


ERROR_KINDS: dict[ErrorCode, ErrorKind] = {
    ErrorCode.ADDRESS_FORBIDDEN: ErrorKind(400, "Address not allowed"),
    ErrorCode.AFTER_FAILED: ErrorKind(400, "A job to wait for has failed"),
    ErrorCode.AFTER_UNKNOWN: ErrorKind(400, "Unknown job to wait for"),
    ErrorCode.APP_ANSWER_BROKEN: ErrorKind(502, "The app's answer is not HTTP"),
    ErrorCode.APP_NOT_ANSWERING: ErrorKind(504, "The app does not answer yet"),
    ErrorCode.APP_UNREACHABLE: ErrorKind(503, "The app cannot be reached"),
    ErrorCode.APPROVAL: ErrorKind(403, "Approval required"),
    ErrorCode.AUTHENTICATION_FAILED: ErrorKind(401, "Authentication failed"),
    ErrorCode.BUDGET: ErrorKind(409, "Budget used up"),
    ErrorCode.BUDGET_INVALID: ErrorKind(400, "Invalid budget"),
    ErrorCode.BULK_REFUSED: ErrorKind(400, "Not every job can be submitted"),
    ErrorCode.BUSY: ErrorKind(409, "Another what-if is running"),
    ErrorCode.CANARY_INVALID: ErrorKind(400, "Invalid canary"),
    ErrorCode.CHANGE_INVALID: ErrorKind(400, "Invalid change"),
    ErrorCode.CHANGES_UNKNOWN: ErrorKind(400, "Unknown changes"),
    ErrorCode.CODE_UNKNOWN: ErrorKind(400, "Unknown code"),
    ErrorCode.DATABASE_UNAVAILABLE: ErrorKind(503, "The database does not respond"),
    ErrorCode.DAYS_INVALID: ErrorKind(400, "Invalid number of days"),
    ErrorCode.DESCRIPTION_INVALID: ErrorKind(400, "Invalid description"),
    ErrorCode.DRAIN_STALE: ErrorKind(409, "The node's jobs have changed"),
    ErrorCode.EMAIL_INVALID: ErrorKind(400, "Invalid address"),
    ErrorCode.EVENTS_GONE: ErrorKind(410, "Events expired"),
    ErrorCode.FILE_CHANGED: ErrorKind(409, "The file has another SHA-256"),
    ErrorCode.FILE_INCOMPLETE: ErrorKind(409, "Files are missing"),
    ErrorCode.FILE_OFFSET: ErrorKind(409, "The file goes on elsewhere"),
    ErrorCode.FILES_NEEDED: ErrorKind(409, "A job needs the files"),
    ErrorCode.FILES_REMOVED: ErrorKind(410, "The files were removed"),
    ErrorCode.FORBIDDEN: ErrorKind(403, "Not allowed"),
    ErrorCode.GPU_BUSY: ErrorKind(409, "The GPU has work"),
    ErrorCode.HAS_RUN: ErrorKind(409, "The job has run already"),
    ErrorCode.HOST_UNKNOWN: ErrorKind(400, "Unknown host"),
    ErrorCode.IDEMPOTENCY_KEY_INVALID: ErrorKind(400, "Invalid idempotency key"),
    ErrorCode.IDEMPOTENCY_MISMATCH: ErrorKind(422, "Idempotency key used for another request"),
    ErrorCode.IDEMPOTENCY_RUNNING: ErrorKind(409, "The first call with this key is running"),
    ErrorCode.IMAGE_NOT_LISTED: ErrorKind(400, "Image not allowed in this project"),
    ErrorCode.IMPOSSIBLE: ErrorKind(400, "Cannot run on this cluster"),
    ErrorCode.INVALID: ErrorKind(400, "Invalid request"),
    ErrorCode.INVALID_FIELD: ErrorKind(400, "Invalid parameter"),
    ErrorCode.KINDS_INVALID: ErrorKind(400, "Invalid kinds of events"),
    ErrorCode.LABELS_INVALID: ErrorKind(400, "Invalid labels"),
    ErrorCode.LAST_ADMIN: ErrorKind(409, "The last admin of the project"),
    ErrorCode.LIMIT_INVALID: ErrorKind(400, "Invalid limit"),
    ErrorCode.LIST_EMPTY: ErrorKind(400, "Empty list"),
    ErrorCode.LOG_REMOVED: ErrorKind(410, "Log removed by retention"),
    ErrorCode.MALFORMED: ErrorKind(400, "Malformed request body"),
    ErrorCode.METHOD_NOT_ALLOWED: ErrorKind(405, "Method not allowed"),
    ErrorCode.MODEL_INVALID: ErrorKind(400, "Invalid GPU model"),
    ErrorCode.NAME_INVALID: ErrorKind(400, "Invalid name"),
    ErrorCode.NAME_TAKEN: ErrorKind(409, "Name taken"),
    ErrorCode.NO_JOBS: ErrorKind(400, "No recorded jobs"),
    ErrorCode.NO_TEST_IMAGE: ErrorKind(409, "No image with nccl-tests is set"),
    ErrorCode.NODE_AWAY: ErrorKind(503, "The job's node is not connected"),
    ErrorCode.NODE_BUSY: ErrorKind(409, "The node has work"),
    ErrorCode.NODE_JOINED: ErrorKind(409, "The node has joined"),
    ErrorCode.NODE_NOT_FROZEN: ErrorKind(409, "The key is not frozen"),
    ErrorCode.NODE_RETIRED: ErrorKind(409, "The node is retired"),
    ErrorCode.NONE_CHOSEN: ErrorKind(400, "Nothing selected"),
    ErrorCode.NOT_ACCEPTABLE: ErrorKind(406, "Not available in this format"),
    ErrorCode.NOT_AUTHENTICATED: ErrorKind(401, "Authentication required"),
    ErrorCode.NOT_AWAITING: ErrorKind(409, "The job awaits no approval"),
    ErrorCode.NOT_FOUND: ErrorKind(404, "Not found"),
    ErrorCode.NOT_OVER: ErrorKind(409, "The job has not ended"),
    ErrorCode.NOT_RUNNING: ErrorKind(409, "The job is not running"),
    ErrorCode.NOT_WAITING: ErrorKind(409, "The job is not waiting"),
    ErrorCode.OVER_PROJECT_LIMIT: ErrorKind(400, "Above the project's limit"),
    ErrorCode.OVER_TIME_LIMIT: ErrorKind(400, "Above the longest time limit"),
    ErrorCode.PAIR_BUSY: ErrorKind(409, "The pair is being measured"),
    ErrorCode.PAIR_INVALID: ErrorKind(400, "Not two nodes that can be measured"),
    ErrorCode.PATH_INVALID: ErrorKind(400, "Invalid path"),
    ErrorCode.PATTERN_INVALID: ErrorKind(400, "Invalid pattern"),
    ErrorCode.PENDING_LIMIT: ErrorKind(409, "Too many waiting jobs"),
    ErrorCode.POLICY_INVALID: ErrorKind(400, "Invalid policy"),
    ErrorCode.PORT_CLOSED: ErrorKind(409, "Nothing listens at the port"),
    ErrorCode.PRICE_INVALID: ErrorKind(400, "Invalid price"),
    ErrorCode.PROJECT_ONLY: ErrorKind(400, "For projects only"),
    ErrorCode.PROJECT_UNKNOWN: ErrorKind(400, "Unknown project"),
    ErrorCode.RANGE_BEYOND_END: ErrorKind(416, "Range not satisfiable"),
    ErrorCode.REASON_MISSING: ErrorKind(400, "Reason required"),
    ErrorCode.REGISTRY_INVALID: ErrorKind(400, "Invalid registry credential"),
    ErrorCode.REQUEST_INVALID: ErrorKind(400, "Invalid job request"),
    ErrorCode.REQUEST_UNREADABLE: ErrorKind(400, "Unreadable job request"),
    ErrorCode.ROLE_INVALID: ErrorKind(400, "Invalid role"),
    ErrorCode.ROOT_INVALID: ErrorKind(400, "Invalid root"),
    ErrorCode.SCOPE_MISSING: ErrorKind(403, "The token lacks a scope"),
    ErrorCode.SERVER_ERROR: ErrorKind(500, "Internal server error"),
    ErrorCode.SHARE_INVALID: ErrorKind(400, "Invalid share"),
    ErrorCode.SECRET_INVALID: ErrorKind(400, "Invalid secret"),
    ErrorCode.SECRET_UNKNOWN: ErrorKind(400, "Unknown secret"),
    ErrorCode.SLUG_INVALID: ErrorKind(400, "Invalid slug"),
    ErrorCode.SLUG_TAKEN: ErrorKind(409, "Slug taken"),
    ErrorCode.STORE_MISMATCH: ErrorKind(500, "Stored bytes disagree with the database"),
    ErrorCode.STORE_OBJECT_MISSING: ErrorKind(500, "Stored bytes are missing"),
    ErrorCode.STORE_OTHER_HOST: ErrorKind(503, "Stored on another web host"),
    ErrorCode.STORE_UNAVAILABLE: ErrorKind(503, "The store does not answer"),
    ErrorCode.STORED_LIMIT: ErrorKind(409, "The project may not store more"),
    ErrorCode.TAINTS_INVALID: ErrorKind(400, "Invalid taints"),
    ErrorCode.THROTTLED: ErrorKind(429, "Too many requests"),
    ErrorCode.TOO_LARGE: ErrorKind(413, "Request body too large"),
    ErrorCode.TOO_MANY_ITEMS: ErrorKind(400, "Too many at once"),
    ErrorCode.TOO_MANY_JOBS: ErrorKind(400, "Too many recorded jobs"),
    ErrorCode.TOO_MANY_TOKENS: ErrorKind(409, "Too many tokens"),
    ErrorCode.TOO_MANY_WEBHOOKS: ErrorKind(409, "Too many webhooks"),
    ErrorCode.TTL_INVALID: ErrorKind(400, "Invalid lifetime"),
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: ErrorKind(415, "Unsupported media type"),
    ErrorCode.URL_INVALID: ErrorKind(400, "Invalid URL"),
    ErrorCode.VERSION_MISSING: ErrorKind(428, "If-Match required"),
    ErrorCode.USER_INACTIVE: ErrorKind(409, "The account is deactivated"),
    ErrorCode.VERSION_STALE: ErrorKind(412, "Changed since you read it"),
    ErrorCode.VOLUME_IN_USE: ErrorKind(409, "The volume is in use"),
    ErrorCode.VOLUME_UNKNOWN: ErrorKind(400, "Unknown volume"),
    ErrorCode.WEBHOOK_OFF: ErrorKind(409, "The webhook is off"),
    ErrorCode.WHAT_IF_OVER: ErrorKind(409, "The what-if has ended"),
}
