"""The Celery application.

The truth about work is in database rows; the broker only says that there is something to do. So results are
never stored, and a task must be safe to deliver twice.
"""

import os
import signal
from typing import Any

from celery import Celery, signals
from django_structlog.celery.steps import DjangoStructLogInitStep

from auditapp.processes import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "auditapp.settings")

app = Celery("auditapp")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(DjangoStructLogInitStep)


@signals.setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """A receiver here stops Celery from replacing Django's LOGGING."""


@signals.beat_embedded_init.connect
@signals.worker_process_init.connect
def _end_with_the_worker(**_: Any) -> None:
    """A busy child would outlive a worker that was killed with -9."""
    die_with_parent(signal.SIGKILL)
