"""WSGI entry point: `gunicorn auditapp.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "auditapp.settings")
application = get_wsgi_application()
