"""The web application: storage, pipeline, pages and workers around the judge."""

from auditapp.celery import app as celery_app

__all__ = ["celery_app"]
