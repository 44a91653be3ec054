"""WSGI entry point: `gunicorn auditapp.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from auditapp.uploads import Utf8WSGIRequest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "auditapp.settings")
application = get_wsgi_application()
application.request_class = Utf8WSGIRequest
