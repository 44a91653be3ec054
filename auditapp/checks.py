"""System checks: what must hold on this machine before work starts.

Those that ask other processes run with `manage.py check --deploy` and when the server starts, not with each command.
"""

import os
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from redis import Redis, RedisError

from judges.sandbox import open_sandbox


@register(Tags.files)
def data_folder_is_writable(**_: Any) -> Sequence[CheckMessage]:
    """Without a data folder nothing can be stored."""
    if os.access(settings.ASSAY_HOME, os.W_OK | os.X_OK):
        return []
    hint = "Give this user the right to write there, or set ASSAY_HOME."
    return [Error(f"The data folder {settings.ASSAY_HOME} cannot be written.", hint=hint, id="assay.E001")]


@register(Tags.files)
def import_roots_exist(**_: Any) -> Sequence[CheckMessage]:
    """A root that is missing is most often a typing error."""
    missing = [str(root) for root in settings.ASSAY_IMPORT_ROOTS if not root.is_dir()]
    hint = "Correct ASSAY_IMPORT_ROOTS, a comma-separated list of folders."
    return [Warning(f"{root} is not a folder.", hint=hint, id="assay.W001") for root in missing]


@register(Tags.security, deploy=True)
def sandbox_works(**_: Any) -> Sequence[CheckMessage]:
    """A judge never runs a command outside a sandbox, so without one it runs none."""
    probe = open_sandbox("bwrap").probe()
    if probe.ok:
        return []
    message = f"Judges cannot run commands here: {probe.reason}"
    return [Warning(message, hint="Judging works, with less evidence.", id="assay.W002")]


@register("broker", deploy=True)
def broker_answers(**_: Any) -> Sequence[CheckMessage]:
    """The embedded broker runs only while the server does; one given by address must always answer."""
    if not settings.REDIS_URL:
        return []
    try:
        Redis.from_url(settings.REDIS_URL, socket_connect_timeout=5).ping()
    except (OSError, ValueError, RedisError) as error:
        return [Error(f"The broker does not answer: {error}", hint="Correct REDIS_URL.", id="assay.E002")]
    return []
