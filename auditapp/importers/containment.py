"""The one place where an import contains exceptions: around one file or folder that should become one record."""

import logging
from collections.abc import Callable

from auditapp.importers.lenient import UnreadableError
from judges.records import ParseFailure, TrajectoryRecord

logger = logging.getLogger(__name__)


def contained(shown: str, read: Callable[[], TrajectoryRecord]) -> TrajectoryRecord | ParseFailure:
    """The record that `read` makes, or the reason why the file or folder called `shown` gave none."""
    try:
        return read()
    except UnreadableError as error:
        return ParseFailure(shown, str(error))
    except Exception as error:
        logger.exception("import of one file failed", extra={"path": shown})
        return ParseFailure(shown, f"could not be read ({type(error).__name__}: {str(error)[:200]})")
