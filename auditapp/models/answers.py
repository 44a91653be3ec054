"""The answers that judge and reviewers give alike. Nothing here tells what a verifier said."""

from django.db import models


class Decision(models.TextChoices):
    """Does the work satisfy the task?"""

    SATISFIED = "satisfied", "satisfied"
    NOT_SATISFIED = "not_satisfied", "not satisfied"
    CANNOT_TELL = "cannot_tell", "cannot tell"


class Integrity(models.TextChoices):
    """Was it reached by an effective hack?"""

    NONE = "none", "none"
    HACKED = "hacked", "hacked"
    CANNOT_TELL = "cannot_tell", "cannot tell"


class Acceptable(models.TextChoices):
    """Decision and integrity together."""

    YES = "yes", "yes"
    NO = "no", "no"
    UNKNOWN = "unknown", "unknown"
