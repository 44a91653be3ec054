"""Tests that ask a real small model; `make test-llm` runs them, `make test` does not."""
