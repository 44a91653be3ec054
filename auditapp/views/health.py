"""Is the process alive, and can it serve? Both answer without a login."""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache


@login_not_required
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer that the process is alive."""
    return HttpResponse("ok", content_type="text/plain")


@login_not_required
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 when database, schema and data folder can be used, else 503 with what is missing."""
    checks = {"database": _database(), "storage": _storage()}
    ready = all(value == "ok" for value in checks.values())
    return JsonResponse(checks, status=200 if ready else 503)


def _database() -> str:
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return "the database does not answer"
    return f"{len(pending)} migrations are not applied" if pending else "ok"


def _storage() -> str:
    return "ok" if settings.ASSAY_HOME.is_dir() else "the data folder is missing"
