"""The first words of a judgment: system text, then what is known of the task, then of the attempt.

The task block has the same bytes for every trajectory of a task, so that a provider's prompt cache holds it.
"""

from judges import prompts
from judges.budget import Limits
from judges.display import clip, display_lines, number_lines
from judges.messages import UserMessage
from judges.records import Case
from judges.taxonomy import taxonomy
from judges.tools import RefusedError, Toolbox
from judges.toolschemas import Root

INSTRUCTION_CHARACTERS = 20_000
OVERVIEW_CHARACTERS = 6_000


def system_text(limits: Limits) -> str:
    """The system prompt: it depends on the config alone."""
    return prompts.render(
        "system",
        turns=limits.turns,
        calls_per_turn=limits.calls_per_turn,
        commands=limits.commands,
        re_asks=limits.re_asks,
        taxonomy_version=taxonomy().version,
        taxonomy=taxonomy().render(),
    )


def opening(tools: Toolbox) -> UserMessage:
    """The first message: a block on the task, a block on the attempt."""
    return UserMessage((_task_block(tools), _trial_block(tools)))


def _task_block(tools: Toolbox) -> str:
    case = tools.case
    lines = number_lines(display_lines(case.instruction or ""))
    return prompts.render(
        "task",
        instruction=tools.framed("instruction", lines, limit=INSTRUCTION_CHARACTERS),
        requirements=_requirements(case),
        reference=_files(tools, "reference"),
        initial=_files(tools, "initial"),
    )


def _requirements(case: Case) -> str:
    if not case.rubric:
        return "none were drafted: add your own, each with a citation of the instruction"
    return "\n".join(f"{item.id}: {' '.join(item.text.split())}{_binding(item.format_binding)}" for item in case.rubric)


def _binding(format_binding: bool) -> str:
    return " [binds a format that the instruction may not state]" if format_binding else ""


def _files(tools: Toolbox, root: Root) -> str:
    try:
        return tools.framed(*tools.listing(root))
    except RefusedError as refusal:
        return str(refusal)


def _trial_block(tools: Toolbox) -> str:
    return prompts.render(
        "trial",
        overview=_overview(tools),
        signals=tools.signals_text(),
        deliverable=_files(tools, "deliverable"),
        claim=_claim(tools),
        gaps=_gaps(tools),
    )


def _overview(tools: Toolbox) -> str:
    try:
        return tools.overview_text(OVERVIEW_CHARACTERS)
    except RefusedError as refusal:
        return str(refusal)


def _claim(tools: Toolbox) -> str:
    """The last message of the agent; its steps are looked at from the end."""
    rows = tools.case.steps.outline()
    for position in range(len(rows) - 1, -1, -1):
        row = rows[position]
        if row.source in ("agent", "unknown") and any(row.sizes.get("message", ())):
            lines = display_lines(tools.case.steps.read(position).message)
            return tools.framed(f"message of step {row.locator}", clip(number_lines(lines), 4_000, "read the step"))
    return "none"


def _gaps(tools: Toolbox) -> str:
    case = tools.case
    missing = [root for root in ("deliverable", "initial", "reference") if getattr(case, root) is None]
    if not case.steps_recorded:
        missing.insert(0, "steps")
    notes = [f"{gap.code} {gap.locator} {gap.detail}".strip() for gap in case.gaps]
    listed = [", ".join(missing)] if missing else []
    return tools.framed("gaps", "\n".join([*listed, *notes])) if listed or notes else "nothing is known to be missing"
