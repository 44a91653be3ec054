#!/usr/bin/env python
"""Run a management command: `manage.py help` lists them."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db import OperationalError


def main() -> None:
    """Exit 2 where the database cannot be used, with what it said; --traceback shows where."""
    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if "--traceback" in sys.argv:
            raise
        print(f"The database cannot be used: {str(error).strip()}", file=sys.stderr)
        print("See that it runs and has room, and that `manage.py migrate` has been run.", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "auditapp.settings")
    main()
