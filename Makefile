# Thin: each line is a command that can also be typed; README.md lists them for people without make.
PYTHON ?= python3
PORT ?= 8000
ENV = $(PYTHON) scripts/bootstrap.py

.PHONY: install demo serve test test-llm lint bench lock

install:
	@$(ENV)

demo:
	@$(ENV)
	@exec .venv/bin/python manage.py demo --port $(PORT)

serve:
	@$(ENV)
	@exec .venv/bin/python manage.py serve --port $(PORT)

test:
	@$(ENV) --test
	@exec .venv/bin/python scripts/check.py

# Three wire formats against a real model of 135 million parameters; no part of `make test`.
test-llm:
	@$(ENV) --llm
	@exec .venv/bin/python -m pytest tests/llm -m llm

lint:
	@$(ENV) --test
	@exec .venv/bin/python scripts/check.py --lint

bench:
	@$(ENV) --test
	@exec .venv/bin/python -m pytest tests/bench -m bench -s

# Resolve pyproject.toml anew; what is locked already stays as it is.
lock:
	@$(ENV) --test
	@.venv/bin/python scripts/lock.py
