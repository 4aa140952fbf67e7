"""Closed sets of codes in the history and in the audit trail, with the word that pages show.

Codes are stored and part of the REST API and of webhooks, so they never change.
"""

from enum import StrEnum


class AuditAction(StrEnum):
    """A privileged change, or a security event."""

    AGENT_TOKEN_REFUSED = "agent_token_refused"  # noqa: S105 - no secret
    APP_GUEST_ADD = "app_guest_add"
    APP_GUEST_REMOVE = "app_guest_remove"
    APP_OPEN = "app_open"
    APP_TOKEN_CREATE = "app_token_create"  # noqa: S105 - no secret
    APP_TOKEN_REVOKE = "app_token_revoke"  # noqa: S105 - no secret
    AUDIT_REMOVE = "audit_remove"
    BUDGET_ADD = "budget_add"
    BUDGET_REMOVE = "budget_remove"
    GPU_CLAIM = "gpu_claim"
    GPU_CLAIM_ACCEPT = "gpu_claim_accept"
    GPU_CLAIM_DISMISS = "gpu_claim_dismiss"
    ENROLMENT_REFUSED = "enrolment_refused"
    FILES_REMOVE = "files_remove"
    GPU_PIN = "gpu_pin"
    GPU_UNPIN = "gpu_unpin"
    HELLO_REFUSED = "hello_refused"
    IDLE_POLICY_SET = "idle_policy_set"
    IMAGE_POLICY_SET = "image_policy_set"
    JOB_APPROVE = "job_approve"
    JOB_EXTEND = "job_extend"
    JOB_HOLD = "job_hold"
    JOB_REFUSE = "job_refuse"
    JOB_RELEASE = "job_release"
    LIMIT_DECLINE = "limit_decline"
    LIMIT_GRANT = "limit_grant"
    LIMIT_REQUEST = "limit_request"
    MEMBERSHIP_REMOVE = "membership_remove"
    MEMBERSHIP_SET = "membership_set"
    MEMBERSHIP_SHARE = "membership_share"
    NODE_ADD = "node_add"
    NODE_ALLOW_MASS_REMOVAL = "node_allow_mass_removal"
    NODE_CORDON = "node_cordon"
    NODE_DRAIN = "node_drain"
    NODE_FREEZE = "node_freeze"
    NODE_INVITE = "node_invite"
    NODE_LABEL = "node_label"
    NODE_RETIRE = "node_retire"
    NODE_REVOKE = "node_revoke"
    NODE_TAINT = "node_taint"
    NODE_UNCORDON = "node_uncordon"
    NODE_UNFREEZE = "node_unfreeze"
    NODE_WITHDRAW = "node_withdraw"
    PAIR_CLEAR = "pair_clear"
    PAIR_MEASURE = "pair_measure"
    PASSWORD_CHANGE = "password_change"  # noqa: S105 - no secret
    PASSWORD_SET = "password_set"  # noqa: S105 - no secret
    POLICY_SET = "policy_set"
    PORT_OPEN = "port_open"
    PRICES_SET = "prices_set"
    SSH_OPEN = "ssh_open"
    TERMINAL_OPEN = "terminal_open"
    PROJECT_CHANGE = "project_change"
    PROJECT_CREATE = "project_create"
    PROJECT_EGRESS_SET = "project_egress_set"
    PROJECT_TERMINALS_SET = "project_terminals_set"
    PROJECT_SHARE = "project_share"
    PROJECT_STORAGE_SET = "project_storage_set"
    QUOTA_SET = "quota_set"
    RECOVERY_CODES_NEW = "recovery_codes_new"
    REGISTRY_DELETE = "registry_delete"
    REGISTRY_SET = "registry_set"
    SECOND_STEP_ADD = "second_step_add"
    SECOND_STEP_REFUSED = "second_step_refused"
    SECOND_STEP_REMOVE = "second_step_remove"
    SECOND_STEPS_REMOVE = "second_steps_remove"
    SECRET_DELETE = "secret_delete"  # noqa: S105 - no secret
    SECRET_SET = "secret_set"  # noqa: S105 - no secret
    SERVICE_CHANGE = "service_change"
    SERVICE_CREATE = "service_create"
    SERVICE_END = "service_end"
    SERVICE_PROMOTE = "service_promote"
    SESSION_END = "session_end"
    SESSION_END_OTHERS = "session_end_others"
    SIGN_IN = "sign_in"
    SIGN_IN_CONNECT = "sign_in_connect"
    SIGN_IN_LINK_CREATE = "sign_in_link_create"
    SIGN_IN_REFUSED = "sign_in_refused"
    TEMPLATE_CHANGE = "template_change"
    TEMPLATE_DELETE = "template_delete"
    TEMPLATE_SAVE = "template_save"
    THROTTLED = "throttled"
    TOKEN_CREATE = "token_create"  # noqa: S105 - no secret
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - no secret
    TOKEN_REVOKE = "token_revoke"  # noqa: S105 - no secret
    USER_ADD = "user_add"
    USER_CHANGE = "user_change"
    VOLUME_CHANGE = "volume_change"
    VOLUME_CREATE = "volume_create"
    VOLUME_DELETE = "volume_delete"
    WEBHOOK_ADD = "webhook_add"
    WEBHOOK_REMOVE = "webhook_remove"
    WHAT_IF = "what_if"
    WHAT_IF_CANCEL = "what_if_cancel"

    @property
    def label(self) -> str:
        """In English; pages translate it."""
        return AUDIT_LABELS[self]


class EventCode(StrEnum):
    """What happened to a row, where its status alone does not say it.

    An event may also have the code of a reason, a stop reason or an agent.
    """

    APPROVED = "approved"
    CARVE = "carve"
    EVENTS_DROPPED = "events_dropped"
    EXTENDED = "extended"
    FILES_NOT_STORED = "files_not_stored"
    GPU_CLAIMED_TWICE = "gpu_claimed_twice"
    GPU_MOVED = "gpu_moved"
    GPU_PIN = "gpu_pin"
    GPU_UNPIN = "gpu_unpin"
    ENDED_UNSEEN = "ended_unseen"
    HEALTH_FAULTED = "health_faulted"
    HEALTH_MISSING = "health_missing"
    HEALTH_OK = "health_ok"
    JOB_HOLD = "job_hold"
    JOB_HUNG = "job_hung"
    JOB_IDLE = "job_idle"
    JOB_RELEASE = "job_release"
    LIMIT_DECLINE = "limit_decline"
    LIMIT_GRANT = "limit_grant"
    LIMIT_REQUEST = "limit_request"
    MASS_REMOVAL_ALLOWED = "mass_removal_allowed"
    MERGE = "merge"
    NETWORK_CHECKED = "network_checked"
    NEVER_STARTED = "never_started"
    NODE_CORDON = "node_cordon"
    NODE_ENROLLED = "node_enrolled"
    NODE_FROZEN = "node_frozen"
    NODE_HOLDING = "node_holding"
    NODE_HOLDING_ENDED = "node_holding_ended"
    NODE_LABEL = "node_label"
    NODE_LOST = "node_lost"
    NODE_REBOOTED = "node_rebooted"
    NODE_RETIRED = "node_retired"
    NODE_REVOKED = "node_revoked"
    NODE_TAINT = "node_taint"
    NODE_UNCORDON = "node_uncordon"
    NODE_UNFROZEN = "node_unfrozen"
    PAIR_MEASURED = "pair_measured"
    PAIR_SLOW = "pair_slow"
    PAIR_WRONG = "pair_wrong"
    REFUSED = "refused"
    REPLACED = "replaced"
    REPLACES = "replaces"
    RETRIED = "retried"
    RETRIES = "retries"
    RETRY = "retry"
    SILENT = "silent"
    SITE_ANSWERS = "site_answers"
    SITE_LOST = "site_lost"
    SITE_SILENT = "site_silent"
    SUBMITTED = "submitted"
    VANISHED = "vanished"

    @property
    def label(self) -> str:
        """In English; pages translate it."""
        return EVENT_LABELS[self]


AUDIT_LABELS: dict[AuditAction, str] = {
    AuditAction.AGENT_TOKEN_REFUSED: "Access token of a node refused",
    AuditAction.APP_GUEST_ADD: "App of a job shared with a person",
    AuditAction.APP_GUEST_REMOVE: "App of a job taken back from a person",
    AuditAction.APP_OPEN: "App of a job opened",
    AuditAction.APP_TOKEN_CREATE: "Token for apps created",
    AuditAction.APP_TOKEN_REVOKE: "Token for apps revoked",
    AuditAction.AUDIT_REMOVE: "Old audit lines removed",
    AuditAction.BUDGET_ADD: "Budget added",
    AuditAction.BUDGET_REMOVE: "Budget removed",
    AuditAction.GPU_CLAIM: "GPU reported by a second node",
    AuditAction.GPU_CLAIM_ACCEPT: "GPU moved to another node",
    AuditAction.GPU_CLAIM_DISMISS: "Claim to a GPU dismissed",
    AuditAction.ENROLMENT_REFUSED: "Enrolment of a node refused",
    AuditAction.FILES_REMOVE: "Files of a job removed",
    AuditAction.GPU_PIN: "GPU pinned",
    AuditAction.GPU_UNPIN: "GPU unpinned",
    AuditAction.HELLO_REFUSED: "Hello of a node refused",
    AuditAction.IDLE_POLICY_SET: "Idle policy set",
    AuditAction.IMAGE_POLICY_SET: "Image policy set",
    AuditAction.JOB_APPROVE: "Job approved",
    AuditAction.JOB_EXTEND: "Job extended",
    AuditAction.JOB_HOLD: "Job held",
    AuditAction.JOB_REFUSE: "Job refused",
    AuditAction.JOB_RELEASE: "Job released",
    AuditAction.LIMIT_DECLINE: "Higher limit declined",
    AuditAction.LIMIT_GRANT: "Higher limit granted",
    AuditAction.LIMIT_REQUEST: "Higher limit requested",
    AuditAction.MEMBERSHIP_REMOVE: "Member removed",
    AuditAction.MEMBERSHIP_SET: "Role of a member set",
    AuditAction.MEMBERSHIP_SHARE: "Share of a member set",
    AuditAction.NODE_ADD: "Node added",
    AuditAction.NODE_ALLOW_MASS_REMOVAL: "Removal of most work allowed",
    AuditAction.NODE_CORDON: "Node cordoned",
    AuditAction.NODE_DRAIN: "Node drained",
    AuditAction.NODE_FREEZE: "Key of a node frozen",
    AuditAction.NODE_INVITE: "Join token created",
    AuditAction.NODE_LABEL: "Node labels set",
    AuditAction.NODE_RETIRE: "Node retired",
    AuditAction.NODE_REVOKE: "Key of a node revoked",
    AuditAction.NODE_TAINT: "Node taints set",
    AuditAction.NODE_UNCORDON: "Node uncordoned",
    AuditAction.NODE_UNFREEZE: "Key of a node unfrozen",
    AuditAction.NODE_WITHDRAW: "Node withdrawn before its first contact",
    AuditAction.PAIR_CLEAR: "Result of two nodes cleared",
    AuditAction.PAIR_MEASURE: "Measurement of two nodes started",
    AuditAction.PASSWORD_CHANGE: "Password changed",
    AuditAction.PASSWORD_SET: "Password set by an admin",
    AuditAction.POLICY_SET: "Scheduling policy changed",
    AuditAction.PORT_OPEN: "Port of a job opened",
    AuditAction.PRICES_SET: "Prices set",
    AuditAction.SSH_OPEN: "SSH into a job opened",
    AuditAction.TERMINAL_OPEN: "Terminal in a job opened",
    AuditAction.PROJECT_CHANGE: "Project changed",
    AuditAction.PROJECT_CREATE: "Project created",
    AuditAction.PROJECT_EGRESS_SET: "Egress of a project set",
    AuditAction.PROJECT_TERMINALS_SET: "Terminals of a project's jobs allowed or turned off",
    AuditAction.PROJECT_SHARE: "Share of a project set",
    AuditAction.PROJECT_STORAGE_SET: "Storage of a project set",
    AuditAction.QUOTA_SET: "Quota set",
    AuditAction.RECOVERY_CODES_NEW: "Recovery codes created",
    AuditAction.REGISTRY_DELETE: "Registry credential deleted",
    AuditAction.REGISTRY_SET: "Registry credential set",
    AuditAction.SECOND_STEP_ADD: "Second step added",
    AuditAction.SECOND_STEP_REFUSED: "Second step refused",
    AuditAction.SECOND_STEP_REMOVE: "Second step removed",
    AuditAction.SECOND_STEPS_REMOVE: "All second steps removed",
    AuditAction.SECRET_DELETE: "Secret deleted",
    AuditAction.SECRET_SET: "Secret set",
    AuditAction.SERVICE_CHANGE: "Service changed",
    AuditAction.SERVICE_CREATE: "Service created",
    AuditAction.SERVICE_END: "Service ended",
    AuditAction.SERVICE_PROMOTE: "Canary of a service promoted",
    AuditAction.SESSION_END: "Session ended",
    AuditAction.SESSION_END_OTHERS: "Other sessions ended",
    AuditAction.SIGN_IN: "Sign-in",
    AuditAction.SIGN_IN_CONNECT: "External account connected",
    AuditAction.SIGN_IN_LINK_CREATE: "Link for a new password created",
    AuditAction.SIGN_IN_REFUSED: "Sign-in refused",
    AuditAction.TEMPLATE_CHANGE: "Template changed",
    AuditAction.TEMPLATE_DELETE: "Template deleted",
    AuditAction.TEMPLATE_SAVE: "Template created",
    AuditAction.THROTTLED: "Calls limited",
    AuditAction.TOKEN_CREATE: "API token created",
    AuditAction.TOKEN_REFUSED: "API token refused",
    AuditAction.TOKEN_REVOKE: "API token revoked",
    AuditAction.USER_ADD: "User added",
    AuditAction.USER_CHANGE: "User changed",
    AuditAction.VOLUME_CHANGE: "Volume changed",
    AuditAction.VOLUME_CREATE: "Volume created",
    AuditAction.VOLUME_DELETE: "Volume deleted",
    AuditAction.WEBHOOK_ADD: "Webhook added",
    AuditAction.WEBHOOK_REMOVE: "Webhook removed",
    AuditAction.WHAT_IF: "What-if started",
    AuditAction.WHAT_IF_CANCEL: "What-if cancelled",
}

EVENT_LABELS: dict[EventCode, str] = {
    EventCode.APPROVED: "Approved",
    EventCode.CARVE: "Slice carved ahead of demand",
    EventCode.EVENTS_DROPPED: "Events dropped",
    EventCode.EXTENDED: "Time limit extended",
    EventCode.FILES_NOT_STORED: "Files not stored",
    EventCode.GPU_CLAIMED_TWICE: "GPU reported by two nodes",
    EventCode.GPU_MOVED: "GPU moved to another node",
    EventCode.GPU_PIN: "GPU pinned",
    EventCode.GPU_UNPIN: "GPU unpinned",
    EventCode.ENDED_UNSEEN: "Ended before the restore",
    EventCode.HEALTH_FAULTED: "GPU out of service",
    EventCode.HEALTH_MISSING: "GPU missing",
    EventCode.HEALTH_OK: "GPU healthy again",
    EventCode.JOB_HOLD: "Put on hold",
    EventCode.JOB_HUNG: "No progress",
    EventCode.JOB_IDLE: "Idle",
    EventCode.JOB_RELEASE: "Released from hold",
    EventCode.LIMIT_DECLINE: "Higher limit declined",
    EventCode.LIMIT_GRANT: "Higher limit granted",
    EventCode.LIMIT_REQUEST: "Higher limit requested",
    EventCode.MASS_REMOVAL_ALLOWED: "Removal of most work allowed",
    EventCode.MERGE: "Idle slices merged",
    EventCode.NETWORK_CHECKED: "Network checked",
    EventCode.NEVER_STARTED: "Never started",
    EventCode.NODE_CORDON: "Node cordoned",
    EventCode.NODE_ENROLLED: "Node enrolled",
    EventCode.NODE_FROZEN: "Key of a node frozen",
    EventCode.NODE_HOLDING: "Holds back",
    EventCode.NODE_HOLDING_ENDED: "No longer holds back",
    EventCode.NODE_LABEL: "Node labels set",
    EventCode.NODE_LOST: "Node lost",
    EventCode.NODE_REBOOTED: "Node rebooted",
    EventCode.NODE_RETIRED: "Node retired",
    EventCode.NODE_REVOKED: "Key of a node revoked",
    EventCode.NODE_TAINT: "Node taints set",
    EventCode.NODE_UNCORDON: "Node uncordoned",
    EventCode.NODE_UNFROZEN: "Key of a node unfrozen",
    EventCode.PAIR_MEASURED: "Measured with another node",
    EventCode.PAIR_SLOW: "Slow with another node",
    EventCode.PAIR_WRONG: "Wrong sums with another node",
    EventCode.REFUSED: "Approval refused",
    EventCode.REPLACED: "Replaced by another job",
    EventCode.REPLACES: "Replaces another job",
    EventCode.RETRIED: "Retried as another job",
    EventCode.RETRIES: "Retry of another job",
    EventCode.RETRY: "Queued again",
    EventCode.SILENT: "No contact",
    EventCode.SITE_ANSWERS: "Its site answers again",
    EventCode.SITE_LOST: "Lost by its site",
    EventCode.SITE_SILENT: "No contact with its site",
    EventCode.SUBMITTED: "Submitted",
    EventCode.VANISHED: "Slice vanished",
}
