"""A worker whose judge waits at its second call until a file says go: celery -A tests.faults.slow_worker worker."""

import os
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import django

django.setup()

from auditapp import judging  # noqa: E402
from auditapp.celery import app  # noqa: E402
from judges.messages import AssistantMessage, TurnReply, TurnRequest  # noqa: E402
from judges.providers.scripted import ScriptedProvider  # noqa: E402
from tests.auditapp.looks import GOOD  # noqa: E402

__all__ = ["app"]
FOLDER = Path(os.environ["ASSAY_TEST_GATE"])
COST, WORST = Decimal("0.01"), Decimal("0.02")


class Slow(ScriptedProvider):
    """Notes each call before it answers."""

    def complete(self, request: TurnRequest) -> TurnReply:
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages) + 1
        with (FOLDER / "calls").open("a") as calls:
            calls.write(f"{turn}\n")
        while turn == 2 and not (FOLDER / "go").exists():
            time.sleep(0.02)
        return super().complete(request)

    def worst_cost(self, _request: TurnRequest) -> Decimal:
        return WORST


judging.open_provider = lambda _config, **_: Slow([replace(turn, cost=COST) for turn in GOOD])
