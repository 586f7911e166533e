# The commands of this folder. `make` alone lists them.
#
# Each one first lets make/prepare bring .venv up to date, which is quick when nothing has changed.
# ARGS are passed on: make test ARGS="tests/model -x", make serve ARGS="--port 9000".
# Tests run in WORKERS processes; WORKERS=0 runs them in one, where a debugger can be used.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON ?=
ARGS ?=
WORKERS ?= 2
BIN := .venv/bin
CODE := src tests bench stress conformance examples make/sync_sdk.py

export PYTHON

.PHONY: help serve console test check format bench trace wire stress conformance clients requirements requirements-tick drawing lock clean run-env dev-env

help: ## this list
	@echo "Jackfield. Start with: make serve"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

serve: run-env console ## set up what is missing, then serve the demo project at http://127.0.0.1:8420
	@$(BIN)/jackfield serve --config examples/demo/jackfield.toml $(ARGS)

console: ## build the console, where npm is there and something has changed
	@make/console

test: dev-env ## every test; ARGS="tests/model" runs a part, which needs neither npm nor a browser
	@$(if $(findstring tests/,$(ARGS)),make/console,make/console needed && PATH="$(CURDIR)/$(BIN):$$PATH" make/browser)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: dev-env ## format, lint, types, import rules, the generated SDK; the console's types where npm has been
	$(BIN)/python make/sync_sdk.py --check
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	@make/console check

format: dev-env ## format the code, generate the blocking SDK
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/python make/sync_sdk.py

bench: dev-env ## the benchmark table: ratios measured in one run
	@$(BIN)/python -m bench $(ARGS)

trace: dev-env ## how much code there is and how much of it a call passes through, before and now; ARGS="--list FOLDER"
	@$(BIN)/python -m bench.trace $(ARGS)

wire: dev-env ## what this gateway says on the wire, as JSON; ARGS="--compare OLD NEW" prints differences
	@$(BIN)/python -m conformance.wire $(or $(ARGS),.)

stress: dev-env ## the long counts that the tests run small: races at the deadline, kill -9 under load; ARGS="--only kills"
	@$(BIN)/python -m stress $(ARGS)

conformance: dev-env ## the MCP project's own suite and Inspector against a gateway; needs npm; ARGS="--revision 2026-07-28"
	@$(BIN)/python -m conformance $(ARGS)

clients: dev-env ## Codex, opencode and the SDKs of others, unchanged, against a gateway; needs npm; ARGS="--only codex"
	@$(BIN)/python -m conformance.clients $(ARGS)

requirements: dev-env ## which demands the tests show and which are open, by seed; ARGS=--open lists the open ones
	@$(BIN)/python -m tests.requirements_report $(ARGS)

requirements-tick: dev-env ## write into tests/requirements.toml which demands the tests name
	@$(BIN)/python -m tests.requirements_report --tick

drawing: dev-env ## redraw the package graph in docs/architecture.md from the imports
	@$(BIN)/python -m tests.package_graph --write

lock: dev-env ## pin what pyproject.toml asks for, with hashes and without addresses; ARGS=--upgrade takes the newest
	@make/lock $(ARGS)

clean: ## remove the environment and every cache; the demo's data stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis .conformance build dist
	find src tests bench stress conformance examples make -name __pycache__ -type d -prune -exec rm -rf {} +

run-env:
	@make/prepare run

dev-env:
	@make/prepare dev
