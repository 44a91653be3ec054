"""The one Django app."""

from django.apps import AppConfig


class AuditAppConfig(AppConfig):
    """Registers the models and the start-up checks."""

    name = "auditapp"
    verbose_name = "Assay"

    def ready(self) -> None:
        """Register the system checks and what every new connection to the database is told."""
        from auditapp import checks, prepared  # noqa: F401, PLC0415  (checks need loaded apps)
