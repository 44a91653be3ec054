"""The product's settings plus tasks that a test can watch and hold."""

from auditapp.settings import *  # noqa: F403

CELERY_IMPORTS = ["tests.platform.tasks"]
CELERY_TASK_ROUTES = {"tests.platform.tasks.judge_*": {"queue": "judge"}}
