"""The two-phase loop: blind verdict, lock, reveal, attribution. Exceptions are its exits."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from judges import dossier, intake, prompts, results
from judges.budget import Budget
from judges.citations import Checker
from judges.config import JudgeConfig
from judges.conversation import Conversation
from judges.display import nonce
from judges.documents import Documents
from judges.errors import JudgmentFailed, LockConflict
from judges.ledger import Ledger, MemoryLedger, Phase, StoredTurn
from judges.messages import ToolCall, ToolMessage, ToolResult, TurnReply, UserMessage
from judges.providers import Provider
from judges.records import Case
from judges.sandbox import Sandbox
from judges.submissions import SUBMIT, Desk
from judges.tools import Toolbox
from judges.verdict import JudgmentResult

__all__ = ["Ledger", "MemoryLedger", "Phase", "StoredTurn", "judge"]
MAX_CUT_OFF: Final = 3
# Frames carry a mark that an agent must not guess. To resume by replay in another process, pass the same secret.
_PROCESS_SECRET: Final = secrets.token_bytes(32)


def judge(
    case: Case,
    config: JudgeConfig,
    *,
    provider: Provider,
    sandbox: Sandbox,
    ledger: Ledger,
    secret: bytes = _PROCESS_SECRET,
    clock: Callable[[], float] = time.monotonic,
    documents: Documents | None = None,
) -> JudgmentResult:
    """Look at one trajectory: a completed result with a decision, or a failed one with a reason.

    Raises JudgmentStopped and HandBack; other exceptions are bugs. The ledger holds what happened until then.
    """
    shown = documents or Documents()
    tools = Toolbox(case, config.limits, nonce(secret, case.task_digest), sandbox, documents=shown)
    budget = Budget(config.limits, clock)
    desk = Desk(tools, Checker(case, tools, documents=shown), ledger)
    try:
        status, reason, detail = _look(case, config, provider, budget, desk)
    finally:
        tools.close()
    return results.build(desk, budget, status, reason, detail, provider.provenance())


def _look(
    case: Case, config: JudgeConfig, provider: Provider, budget: Budget, desk: Desk
) -> tuple[results.Status, str, str]:
    """Run both phases; how it ended, a reason, a detail."""
    try:
        settled = intake.examine(case)
        if settled is not None:
            desk.settle(settled.verdict)
            return "completed", settled.reason, ""
        talk = Conversation(
            provider, desk.ledger, budget, dossier.system_text(config.limits), config.request_settings()
        )
        talk.add(dossier.opening(desk.tools))
        _Phase(1, talk, desk, config).run()
    except JudgmentFailed as failure:
        return "failed", failure.reason, failure.detail
    except LockConflict as conflict:
        desk.adopt(conflict.stored)
        return "completed", "attribution_missing", str(conflict)
    try:
        _Phase(2, talk, desk, config).run()
    except JudgmentFailed as failure:
        return "completed", "attribution_missing", str(failure)
    return "completed", "", ""


@dataclass(slots=True)
class _Phase:
    """One phase: turns until its submission is recorded."""

    number: Phase
    talk: Conversation
    desk: Desk
    config: JudgeConfig
    cut_off: int = 0

    def run(self) -> None:
        budget, limits, submit = self.talk.budget, self.config.limits, SUBMIT[self.number]
        self.desk.left, last = limits.re_asks, budget.turn_limit(self.number) - 1
        while budget.turns <= last:
            final = budget.turns == last
            reply = self.talk.ask(self.number, force_tool=submit if final else "")
            # What is wrong in the last turn cannot be asked again: it is dropped.
            self.desk.left = 0 if final else self.desk.left
            answers = self._answers(reply)
            nudge = UserMessage((prompts.render("no_call", submit=submit),))
            self.talk.add(ToolMessage(answers) if answers else nudge)
            if self.desk.done(self.number):
                return
        raise JudgmentFailed("budget_turns", f"{last + 1} turns used without a recorded {submit}")

    def _answers(self, reply: TurnReply) -> tuple[ToolResult, ...]:
        """A result for each call of the turn. The submission goes last: nothing else of its turn sees the reveal."""
        if reply.stop == "refusal":
            raise JudgmentFailed("refused", reply.detail)
        if reply.stop == "context_exceeded":
            raise JudgmentFailed("context_exceeded", reply.detail)
        if reply.stop == "max_tokens":
            return self._not_executed(reply)
        most = self.config.limits.calls_per_turn
        submission = next((i for i, call in enumerate(reply.calls[:most]) if call.name == SUBMIT[self.number]), -1)
        answers = [_refused(call, f"not executed: at most {most} calls a turn") for call in reply.calls]
        for index, call in enumerate(reply.calls[:most]):
            if index != submission:
                answers[index] = self._answer(call)
        if submission >= 0:
            answers[submission] = self.desk.receive(reply.calls[submission], self.number)
        return tuple(answers)

    def _not_executed(self, reply: TurnReply) -> tuple[ToolResult, ...]:
        """A truncated turn: its calls must be answered, and are never executed."""
        self.cut_off += 1
        if self.cut_off >= MAX_CUT_OFF:
            raise JudgmentFailed("truncated", f"the output limit was reached {MAX_CUT_OFF} times: raise it")
        return tuple(_refused(call, "not executed: your output was cut off; write less") for call in reply.calls)

    def _answer(self, call: ToolCall) -> ToolResult:
        if call.name in SUBMIT.values():
            return _refused(call, f"not now: this phase ends with one {SUBMIT[self.number]}, in a turn of its own")
        if self.talk.context > self.config.limits.context_tokens:
            return _refused(call, f"context budget reached: call {SUBMIT[self.number]} now")
        return self.desk.tools.execute(call)


def _refused(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call.id, call.name, why, is_error=True)
