"""One trajectory with all that a reader must cope with, built row by row."""

from django.contrib.auth.models import User

from auditapp import blobs
from auditapp.models.datasets import Dataset, Membership, Role, TaskRubric, Trajectory
from auditapp.models.sources import ImportNotice, TaskSource
from judges.records import Action, Attachment, Observation, StepRecord
from judges.safefs import MemoryTree
from tests.auditapp.population import add_trajectory, make_task, make_version

HIDDEN_MARKS = ("the-model-mark", "the-agent-mark", "the-stream-mark", "the-source-id-mark", "the-reference-mark")
BEFORE = "def page(n):\n    return n * 10\n"
AFTER = "def page(n):\n    return (n - 1) * 10\n"
LONG = "\n".join(f"\x1b[32mPASSED\x1b[0m test_{number}" for number in range(1, 461)) + "\nFAILED test_zero\n"


def steps() -> list[StepRecord]:
    """Ten steps of the main agent and two of a sub-agent."""
    edit = {"command": "str_replace", "new_str": "    return (n - 1) * 10", "old_str": "    return n * 10"}
    patch = "@@ -1,2 +1,2 @@\n-    return n * 10\n+    return (n - 1) * 10\n"
    hostile = 'one\r two\r three\n<script>alert("x")</script><img src=//evil.example/x>\nnul \x00 bidi \u202e\n⟦forged⟧'
    image = Attachment("image/png", "screen.png", 48_213)
    return [
        StepRecord("1", "system", "Be careful."),
        StepRecord("2", "user", "Pages are numbered from 1.", timestamp="2026-11-20T14:03:01Z"),
        _act("3", "ls", "app", 0, reasoning="I should look first."),
        StepRecord(
            "4",
            "agent",
            actions=(Action("bash", {"command": "pytest"}, "a"), Action("bash", {"command": "git log"}, "b")),
            observations=(Observation("f3a1c2e", "b", "explicit", 0), Observation(LONG, "a", "position", 1)),
        ),
        StepRecord(
            "5", "agent", actions=(Action("edit", edit, "c"),), observations=(Observation("ok", "c", "single"),)
        ),
        StepRecord("6", "agent", actions=(Action("apply_patch", patch, "d"),)),
        _act("7", "pip install", hostile, 0),
        StepRecord("8", "agent", "A helper checks.", actions=(Action("delegate", {}, "e"),)),
        StepRecord("8.1:1", "user", "check"),
        _act("8.1:2", "python check.py", "fine", 0),
        StepRecord("9", "agent", observations=(Observation("", attachments=(image,)),)),
        StepRecord("10", "agent", "All tests pass."),
    ]


def _act(locator: str, command: str, output: str, code: int, *, reasoning: str = "") -> StepRecord:
    action, result = Action("bash", {"command": command}, "x"), Observation(output, "x", "explicit", code)
    return StepRecord(locator, "agent", "", reasoning, (action,), (result,))


def make_member(dataset: Dataset, role: Role) -> User:
    """A user with one role in the dataset."""
    user = User.objects.create_user(f"{role}-of-{dataset.name}", password="not used")
    Membership.objects.create(dataset=dataset, user=user, role=role)
    return user


def make_world() -> Trajectory:
    """A dataset with one fully recorded trajectory."""
    version = make_version("release")
    initial = blobs.put_tree(MemoryTree({"app/paging.py": BEFORE.encode(), "README.md": b"Paging\n"}))
    reference = blobs.put_tree(MemoryTree({"app/paging.py": AFTER.encode(), "notes.md": b"the-reference-mark\n"}))
    instruction = blobs.put_text("Fix page.\nDo not touch tests.\n")
    task = make_task(version, "paging", instruction_blob=instruction, initial_tree=initial, reference_tree=reference)
    requirement = {"id": "R1", "text": "page 1 is first", "format_binding": True}
    TaskRubric.objects.create(task=task, requirements=[requirement], digest="0" * 64, origin="drafted")
    source = MemoryTree({"verify.py": b"assert True  # the-verifier-source\n"})
    TaskSource.objects.create(task=task, verifier_tree=blobs.put_tree(source))
    trajectory = add_trajectory(
        task,
        "the-source-id-mark",
        "invalid",
        steps=steps(),
        deliverable=blobs.put_tree(_deliverable()),
        model="the-model-mark",
        agent="the-agent-mark",
        attempt=3,
        recorded_status="fail",
        reward=0.0,
        rewards={"reward": 0.0, "style": 0.5},
        verifier_reason="verifier_did_not_run",
        proof="pip: not found",
        proof_locator="verifier/out.txt:2",
        verifier_tree=blobs.put_tree(MemoryTree({"out.txt": b"the-stream-mark\npip: not found\n", "reward.txt": b"0"})),
        original_tree=blobs.put_tree(MemoryTree({"result.json": b'{"the-original-mark": 1}'})),
    )
    ImportNotice.objects.create(
        batch=trajectory.source.batch, trajectory=trajectory, kind="warning", code="bad_time", locator="step 3"
    )
    return trajectory


def _deliverable() -> MemoryTree:
    long = "".join(f"line {number}\n" for number in range(1, 5_001))
    files = {"app/paging.py": AFTER.encode(), "README.md": b"Paging\n", "long.log": long.encode()}
    return MemoryTree({**files, "plot.png": b"\x89PNG\0\0", "empty.txt": b"", "a b&c.txt": b"odd name\n"})
