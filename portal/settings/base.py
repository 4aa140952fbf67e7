"""Django settings shared by dev, test and prod. Settings of Tessera itself are in `platform`."""

from pathlib import Path
from typing import Any

import environ
from django.templatetags.static import static

from portal.log_context import logging_settings
from portal.platform import platform_secrets
from portal.settings.configured import PLATFORM as PLATFORM
from portal.settings.servers import broker_address, postgres_settings
from portal.settings.sign_in import *  # noqa: F403 - the settings of sign-in
from portal.settings.sign_in import SIGN_IN_APPS
from portal.shared_cache import cache_settings
from portal.task_queues import QUEUES, ROUTES, SWEEP, SWEEP_SECONDS

PORTAL_FOLDER = Path(__file__).resolve().parents[1]
# Inside the package where a wheel is installed (setup.py), beside it in a checkout.
TEMPLATE_FOLDERS = (PORTAL_FOLDER / "templates", PORTAL_FOLDER.parent / "templates")

SECRET_KEY = PLATFORM.secret_key
SECRET_KEY_FALLBACKS = list(PLATFORM.secret_key_fallbacks)
DEBUG = False
# Whether a web process loads the planner's kernels before it listens: seconds of its processor,
# which the first dry run would wait for.
LOAD_KERNELS = False
ALLOWED_HOSTS = list(PLATFORM.allowed_hosts)

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_filters",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    *SIGN_IN_APPS,
    "portal.accounts",
    "portal.inventory",
    "portal.jobs",
    "portal.apps",
    "portal.arrays",
    "portal.allocations",
    "portal.images",
    "portal.volumes",
    "portal.gang_networks",
    "portal.job_services",
    "portal.node_pairs",
    "portal.prices",
    "portal.job_metrics",
    "portal.idle",
    "portal.planning",
    "portal.quotas",
    "portal.catalogue",
    "portal.audit",
    "portal.leases",
    "portal.availability",
    "portal.storage",
    "portal.files",
    "portal.backup",
    "portal.configuration",
    "portal.key_rotation",
    "portal.what_if",
    "portal.job_secrets",
    "portal.registries",
    "portal.webhooks",
    "portal.notices",
    "portal.usage",
    "portal.idempotency",
    "portal.web",
    "portal.demo",
]

MIDDLEWARE = [
    "portal.request_id.request_id_middleware",
    "portal.monitoring.requests.request_metrics_middleware",
    "portal.client_address.client_address_middleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "portal.admin_csp.AdminCSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "portal.private_responses.private_response_middleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.web.time_zone.TimeZoneMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "portal.accounts.sessions.SessionActivityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "portal.api.protocol.conditional.ConditionalLists",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [folder for folder in TEMPLATE_FOLDERS if folder.is_dir()][:1],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# IMMEDIATE: a SQLite writer queues at BEGIN instead of failing in the middle with "locked".
SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": PLATFORM.var / "tessera.sqlite3",
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    },
}
DATABASE: dict[str, Any] = (
    environ.Env.db_url_config(PLATFORM.database_url) if PLATFORM.database_url else SQLITE
)
# An open stream must not keep a connection: each request opens its own.
DATABASE["CONN_MAX_AGE"] = 0
if "postgresql" in DATABASE["ENGINE"]:
    DATABASE = postgres_settings(
        DATABASE,
        direct_url=PLATFORM.direct_database_url,
        agent_connections=PLATFORM.agent_connections,
    )
DATABASES = {"default": DATABASE}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [PORTAL_FOLDER / "locale"]
TIME_ZONE = PLATFORM.time_zone
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [PORTAL_FOLDER / "static"]
STATIC_ROOT = PLATFORM.var / "static"

CACHES = cache_settings(PLATFORM.redis_url, PLATFORM.var)

# The body limit of REST and pages; agents have agents.contract.calls.MAX_BODY_BYTES.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
# Only the request page takes files; a tree has at most half as many.
FILE_UPLOAD_HANDLERS = ["portal.web.request.code_files.CodeFileHandler"]
DATA_UPLOAD_MAX_NUMBER_FILES = 20_000

UNFOLD = {
    "SITE_TITLE": "Tessera",
    "SITE_HEADER": "Tessera console",
    "SITE_URL": "/",
    "DASHBOARD_CALLBACK": "portal.web.console.dashboard.admin_index",
    "SITE_SYMBOL": "grid_view",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("icon.svg")}
    ],
    # The accent colour of portal/static/tokens.css.
    "COLORS": {
        "primary": {
            "50": "233 236 251",
            "100": "217 222 248",
            "200": "190 199 243",
            "300": "156 169 236",
            "400": "112 130 226",
            "500": "77 97 224",
            "600": "47 70 198",
            "700": "36 56 164",
            "800": "34 51 127",
            "900": "32 38 75",
            "950": "20 24 50",
        }
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.protocol.authentication.BearerToken",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "portal.api.protocol.permissions.HasTokenScope",
    ],
    "DEFAULT_SCHEMA_CLASS": "portal.api.protocol.openapi.ApiSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.api.protocol.content.BoundedJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "portal.api.protocol.content.JSONOnly",
    "DEFAULT_THROTTLE_CLASSES": ["portal.api.protocol.throttling.CallThrottle"],
    "DEFAULT_THROTTLE_RATES": {"call": PLATFORM.rate_calls, "submit": PLATFORM.rate_submits},
    # `portal.client_address` has decided what to believe of X-Forwarded-For.
    "NUM_PROXIES": 0,
    "EXCEPTION_HANDLER": "portal.api.protocol.problems.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
KNOX_TOKEN_MODEL = "accounts.ApiToken"  # noqa: S105 - a model's name
REST_KNOX = {
    "TOKEN_MODEL": "accounts.ApiToken",
    "TOKEN_TTL": None,
    "AUTO_REFRESH": False,
    "TOKEN_PREFIX": "tsr_",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tessera",
    "DESCRIPTION": "Submit jobs to GPUs, MIG slices and MPS shares; watch and stop them.\n\n"
    "Times are in UTC, such as `2026-11-25T18:00:00Z`; a time that you send may have another "
    "offset. A day without a time, such as `2026-11-25` in a query, begins at midnight in the "
    "portal's time zone.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {
        name: f"portal.api.protocol.openapi.{path}"
        for name, path in {
            "JobStatus": "JOB_STATUS",
            "ReplicaStatus": "REPLICA_STATUS",
            "AllocationStatus": "ALLOCATION_STATUS",
            "SliceStatus": "SLICE_STATUS",
            "WhatIfStatus": "WHAT_IF_STATUS",
            "DeliveryStatus": "DELIVERY_STATUS",
            "JobKind": "JOB_KIND",
            "NodeStatus": "NODE_STATUS",
            "GpuMode": "GPU_MODE",
        }.items()
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.api.protocol.openapi.add_problem_responses",
    ],
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "object-src": ["'none'"],
        "img-src": ["'self'", "data:"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

LOGGING = logging_settings(PLATFORM.log_format, platform_secrets(PLATFORM))

MAIL_IS_SET = bool(PLATFORM.email_url)
if MAIL_IS_SET:
    globals().update(environ.Env.email_url_config(PLATFORM.email_url))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = PLATFORM.email_from

# Celery is a bell between the portal and its workers, never a store: lost messages do no harm.
CELERY_BROKER_URL = broker_address(PLATFORM.broker_url)
CELERY_IMPORTS = [
    "scheduler.tasks",
    "portal.what_if.tasks",
    "portal.webhooks.tasks",
    "portal.notices.tasks",
    "portal.usage.tasks",
    "portal.idempotency.tasks",
    "portal.retention.tasks",
    "portal.apps.tasks",
    "portal.idle.tasks",
    # No tasks: what workers and beat serve to Prometheus.
    "portal.monitoring.celery_process",
]
CELERY_TASK_QUEUES = QUEUES
CELERY_TASK_DEFAULT_QUEUE = SWEEP
CELERY_TASK_ROUTES = ROUTES
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND = None
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "portal.task_pool:TaskPool"
CELERY_TASK_TIME_LIMIT = 45
CELERY_TASK_SOFT_TIME_LIMIT = 30
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# A worker takes tasks and no orders: who can write to the broker cannot stop or reload it.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TIMEZONE = "UTC"
# A message must not expire while its worker does one long task of another kind, or its kind is
# never done on a busy worker. What was done a moment ago is not due (`done_within`).
# The time in it is beat's, judged by the worker's clock: they may differ by minutes.
EXPIRES = 900.0
CELERY_BEAT_SCHEDULE = {
    "sweep": {
        "task": "scheduler.tasks.sweep",
        "schedule": SWEEP_SECONDS,
        "options": {"expires": EXPIRES},
    },
    "monthly_report": {
        "task": "portal.usage.tasks.monthly_report",
        "schedule": 600.0,
        "options": {"expires": EXPIRES},
    },
    "idempotency": {
        "task": "portal.idempotency.tasks.expire",
        "schedule": 600.0,
        "options": {"expires": EXPIRES},
    },
    "retention": {
        "task": "portal.retention.tasks.remove",
        "schedule": 60.0,
        "options": {"expires": EXPIRES},
    },
    "app_access": {
        "task": "portal.apps.tasks.remove",
        "schedule": 600.0,
        "options": {"expires": EXPIRES},
    },
    "idle": {
        "task": "portal.idle.tasks.sweep",
        "schedule": 60.0,
        "options": {"expires": EXPIRES},
    },
    "what_ifs": {
        "task": "portal.what_if.tasks.start_waiting",
        "schedule": 30.0,
        "options": {"expires": EXPIRES},
    },
    "webhooks": {
        "task": "portal.webhooks.tasks.deliver",
        "schedule": 5.0,
        "options": {"expires": EXPIRES},
    },
    "notices": {
        "task": "portal.notices.tasks.deliver",
        "schedule": 5.0,
        "options": {"expires": EXPIRES},
    },
}
CELERY_BEAT_SCHEDULE_FILENAME = str(PLATFORM.var / "beat-schedule")
if CELERY_BROKER_URL.startswith("filesystem://"):
    _broker = PLATFORM.var / "broker"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_broker / "queue"),
        "data_folder_out": str(_broker / "queue"),
        "control_folder": str(_broker / "control"),
        # At 10 ms every other run fell behind when measured; 50 ms keeps up with one worker.
        "polling_interval": 0.05,
    }
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": 60,
        "unacked_restore_interval": 2,
        "unacked_restore_throttle": 1,
        # A bell that cannot be rung is not retried: the sweep finds what it missed.
        "max_retries": 0,
        "socket_connect_timeout": 1,
    }
