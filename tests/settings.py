"""The product's settings with what makes tests fast; tests/services.py has set the environment before."""

from auditapp.settings import *  # noqa: F403
from auditapp.settings import ASSAY_HOME, DATABASES

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, because threads that share an in-memory database see "table is locked" where users never do.
    DATABASES["default"]["TEST"] = {"NAME": str(ASSAY_HOME / "test.sqlite3")}
    DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
