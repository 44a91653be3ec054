"""Settings, all from the environment; with nothing set the embedded default runs on this machine alone.

docs/operations.md lists the variables. A variable NAME that holds a secret may also be given as NAME_FILE.
"""

import hashlib
import logging
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import environ
import structlog
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parent.parent


def _private_dir(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"the folder {path} cannot be made: {error.strerror}. Set ASSAY_HOME to a folder that may be written to."
        ) from error
    return path


def _secret(name: str, default: str = "") -> str:
    """Read NAME, or the file that NAME_FILE names."""
    file = env.str(f"{name}_FILE", "")
    if not file:
        return str(env.str(name, default))
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE names {file}, which cannot be read: {error.strerror}.") from error


def _whole(name: str, default: int) -> int:
    """Read NAME as a number from 1."""
    try:
        number = int(env.int(name, default))
    except ValueError:
        number = 0
    if number < 1:
        raise ImproperlyConfigured(f"{name} is no whole number from 1.")
    return number


def _generated_secret_key(home: Path) -> str:
    """Read the key of the embedded default; the first start makes it, once, even if two start together."""
    path = home / "secret_key"
    if not path.exists():
        draft = home / f".secret_key.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text(encoding="ascii")


def _embedded_socket(home: Path) -> Path:
    """Place the socket of the embedded broker; the kernel refuses addresses longer than 107 bytes."""
    path = home / "broker.sock"
    if len(os.fsencode(path)) <= 100:
        return path
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    folder = _private_dir(Path(f"/tmp/assay-{os.getuid()}-{digest}"))  # noqa: S108  (ownership is checked below)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise ImproperlyConfigured(f"{folder} belongs to somebody else. Set ASSAY_HOME to a shorter path.")
    return folder / "broker.sock"


def _celery_broker(url: str) -> str:
    """Celery spells a unix socket differently from redis-py."""
    return url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=", 1)


def _database(url: str) -> dict[str, Any]:
    try:
        if url.partition("://")[0] not in ("sqlite", "postgres", "postgresql"):
            raise ValueError("another kind of database")
        config: dict[str, Any] = env.db_url_config(url)
    except ValueError as error:  # not quoted: there may be a password in it
        raise ImproperlyConfigured(
            "DATABASE_URL is no address of PostgreSQL, as postgres://USER:PASSWORD@HOST:PORT/NAME is. "
            "Without it, SQLite is used."
        ) from error
    config["HOST"] = unquote(config["HOST"])  # a folder of unix sockets is written %2Frun%2Fpostgresql
    if config["ENGINE"].endswith("sqlite3"):
        # IMMEDIATE because an upgrade from a read lock fails at once whatever the timeout; 20 s because the
        # longest wait measured under load was 4.6 s.
        pragmas = "journal_mode=WAL", "synchronous=NORMAL", "mmap_size=134217728", "journal_size_limit=27103364"
        init_command = "".join(f"PRAGMA {pragma};" for pragma in (*pragmas, "cache_size=2000"))
        return config | {"OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": init_command}}
    password = config["PASSWORD"] or _secret("DATABASE_PASSWORD")
    return config | {"PASSWORD": password, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}


DEBUG = env.bool("DEBUG", False)
ASSAY_HOME = _private_dir(Path(env.str("ASSAY_HOME", str(BASE_DIR / ".assay"))).absolute())
ASSAY_IMPORT_ROOTS = [Path(root).resolve() for root in env.list("ASSAY_IMPORT_ROOTS", default=[])]
ASSAY_MAX_UPLOAD_BYTES = _whole("ASSAY_MAX_UPLOAD_BYTES", 2_000_000_000)

DATABASE_URL = _secret("DATABASE_URL", f"sqlite:///{ASSAY_HOME / 'db.sqlite3'}")
DATABASES = {"default": _database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SECRET_KEY = _secret("SECRET_KEY")
if not SECRET_KEY:
    if not DATABASE_URL.startswith("sqlite"):
        raise ImproperlyConfigured(
            "Set SECRET_KEY or SECRET_KEY_FILE: with DATABASE_URL set, several hosts must share it."
        )
    SECRET_KEY = _generated_secret_key(ASSAY_HOME)

REDIS_URL = _secret("REDIS_URL")
EMBEDDED_BROKER_SOCKET = None if REDIS_URL else _embedded_socket(ASSAY_HOME)
_PROCESS_CACHE = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
CACHES: dict[str, dict[str, Any]] = {"default": _PROCESS_CACHE, "process": _PROCESS_CACHE | {"LOCATION": "process"}}
if REDIS_URL:
    CACHES["default"] = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}

# Workers: judge tasks run on threads and wait for the network, all others on processes and compute.
CELERY_BROKER_URL = _celery_broker(REDIS_URL or f"unix://{EMBEDDED_BROKER_SOCKET}")
# On one machine each worker keeps the messages it has taken under keys of its own, so that the supervisor can put
# back those of a dead worker and leave the others alone.
ASSAY_UNACKED_KEYS = {
    worker: {f"unacked{part}_key": f"unacked{part}:{worker}" for part in ("", "_index", "_mutex")}
    for worker in ("judge", "cpu")
}
ASSAY_JUDGE_THREADS = _whole("ASSAY_JUDGE_THREADS", 32)
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {
    **ASSAY_UNACKED_KEYS.get(env.str("ASSAY_WORKER", ""), {}),
    # Longer than any task: a shorter one starts a running task a second time.
    "visibility_timeout": 6 * 3600,
    "socket_connect_timeout": 5,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_STORE_EAGER_RESULT = False
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TASK_DEFAULT_QUEUE = "cpu"
# Short tasks that others wait for have a queue of their own: a long import must not hold them up.
CELERY_TASK_ROUTES = {
    "auditapp.tasks.judge_*": {"queue": "judge"},
    # Somebody waits for these before a page, so they do not stand behind the thousands of a run.
    "auditapp.tasks.judge_outside": {"queue": "control"},
    "auditapp.tasks.draft_*": {"queue": "control"},
    "auditapp.tasks.start_run": {"queue": "control"},
    "auditapp.tasks.reconcile": {"queue": "control"},
}
CELERY_BEAT_SCHEDULE: dict[str, Any] = {
    # The message expires before the next one, so that none pile up while no worker runs.
    "reconcile": {"task": "auditapp.tasks.reconcile", "schedule": 30.0, "options": {"expires": 25}}
}
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True

INSTALLED_APPS = [
    "auditapp",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "django_htmx",
    "django_structlog",
    "template_partials",
]
MIDDLEWARE = [
    "django_structlog.middlewares.RequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "auditapp.uploads.utf8_only",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "auditapp.views.errors.buttons_say_so",
    "auditapp.views.numbers.ShowPending",
]
ROOT_URLCONF = "auditapp.urls"
WSGI_APPLICATION = "auditapp.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
AUTHENTICATION_BACKENDS = ["auditapp.accounts.Backend"]
SESSION_ENGINE = "auditapp.accounts"
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# STATIC_COLLECTED=1 after `collectstatic` (the container image does it) gives hashed names that may be cached for
# ever; otherwise files are served from where they lie.
STATIC_COLLECTED = env.bool("STATIC_COLLECTED", False)
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles" if STATIC_COLLECTED else None
STATICFILES_DIRS = [BASE_DIR / "static"] if (BASE_DIR / "static").is_dir() else []
WHITENOISE_USE_FINDERS = not STATIC_COLLECTED
STORAGES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": ASSAY_HOME / "files"},
    },
    "blobs": {
        "BACKEND": "auditapp.blobs.AtomicFileStorage",
        "OPTIONS": {"location": ASSAY_HOME / "blobs"},
    },
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
FILE_UPLOAD_HANDLERS = ["auditapp.uploads.BoundedUploadHandler"]
FILE_UPLOAD_TEMP_DIR = _private_dir(ASSAY_HOME / "uploads")
FILE_UPLOAD_PERMISSIONS = 0o600
DATA_UPLOAD_MAX_MEMORY_SIZE = 5_000_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2_000

# Security. ASSAY_TLS=1 says that a proxy in front ends TLS and sets X-Forwarded-Proto on every request.
ASSAY_TLS = env.bool("ASSAY_TLS", False)
# Loopback always: health checks ask there.
ALLOWED_HOSTS = [*env.list("ALLOWED_HOSTS", default=[]), "localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
SESSION_COOKIE_NAME = "assay_session"
CSRF_COOKIE_NAME = "assay_csrf"
CSRF_FAILURE_VIEW = "auditapp.views.errors.not_from_here"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ASSAY_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ASSAY_TLS else None
SECURE_SSL_REDIRECT = ASSAY_TLS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = 31_536_000 if ASSAY_TLS else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

# Logs: one JSON object a line on stderr; the id of a request travels into the tasks it starts.
DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = logging.DEBUG
LOG_LEVEL = env.str("LOG_LEVEL", "INFO").upper()
if LOG_LEVEL not in logging.getLevelNamesMapping():
    raise ImproperlyConfigured(f"LOG_LEVEL is none of {', '.join(logging.getLevelNamesMapping())}.")
_LOG_STEPS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.ExtraAdder(),
]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": _LOG_STEPS,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        name: {"handlers": ["stderr"], "level": LOG_LEVEL, "propagate": False}
        for name in ("auditapp", "judges", "celery", "django", "django_structlog")
    }
    # One line for each message sent and for each received would drown all others in a run of thousands.
    | {"django_structlog.celery": {"handlers": ["stderr"], "level": "WARNING", "propagate": False}},
}
structlog.configure(
    processors=[structlog.stdlib.filter_by_level, *_LOG_STEPS, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
