"""The log of state changes."""

from django.conf import settings
from django.db import models

from auditapp.models.datasets import Dataset


class AuditEvent(models.Model):
    """Who did what to which object, and when; append-only."""

    dataset = models.ForeignKey(Dataset, null=True, on_delete=models.SET_NULL, related_name="events")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["dataset", "-id"], name="event_recent")]
