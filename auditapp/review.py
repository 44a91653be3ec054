"""The queue of blind review: claim, draft, submit, skip, flag, undo. It knows nothing of verdicts."""
