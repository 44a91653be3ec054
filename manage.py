#!/usr/bin/env python
"""Run a management command: `manage.py help` lists them."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import Error, InterfaceError, OperationalError

NO_SUCH_TABLE_OR_COLUMN = ("42P01", "42703")
"""What PostgreSQL says of a database that was not migrated, which SQLite calls operational."""


def main() -> None:
    """Exit 2 where settings or the database cannot be used, with what is wrong; --traceback shows where."""
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        if "--traceback" in sys.argv:
            raise
        print(f"The settings cannot be used: {error}", file=sys.stderr)
        sys.exit(2)
    except Error as error:
        if "--traceback" in sys.argv or not _is_of_database(error):
            raise
        print(f"The database cannot be used: {str(error).strip()}", file=sys.stderr)
        print("See that it runs and has room, and that `manage.py migrate` has been run.", file=sys.stderr)
        sys.exit(2)


def _is_of_database(error: Error) -> bool:
    """Whether the database is away or not as it should be, and no statement of ours is wrong."""
    is_old = getattr(error.__cause__, "sqlstate", None) in NO_SUCH_TABLE_OR_COLUMN
    return is_old or isinstance(error, (InterfaceError, OperationalError))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "auditapp.settings")
    main()
