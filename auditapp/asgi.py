"""ASGI entry point, for servers that prefer it; every page also works under WSGI."""

import os

from django.core.asgi import get_asgi_application

from auditapp.uploads import Utf8ASGIRequest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "auditapp.settings")
application = get_asgi_application()
application.request_class = Utf8ASGIRequest
