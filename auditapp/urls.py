"""Addresses of the pages."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import path


@login_not_required
def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer that the process is alive."""
    return HttpResponse("ok", content_type="text/plain")


urlpatterns = [path("healthz", healthz)]
