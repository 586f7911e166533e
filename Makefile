# `make` lists the commands.
#
# Each one first updates .venv with make/prepare, which is quick if nothing has changed.
# ARGS are passed on: make test ARGS="tests/model -x", make serve ARGS="--port 9000".
# Tests run in WORKERS processes, more than cores because many tests wait; WORKERS=0 runs them in one, for a debugger.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON ?=
ARGS ?=
WORKERS ?= 3
BIN := .venv/bin
PROPERTIES := tests/store tests/stories/test_http_schemathesis.py -k "machine or promises"
CODE := src tests bench stress chaos fuzz conformance documentation examples make/sync_sdk.py make/sync_typescript.py make/wheel.py make/release.py make/image.py

export PYTHON

.PHONY: help serve console wheel release image test check format bench bench-peers bench-gateways bfcl trace wire stress chaos soak fuzz conformance clients requirements requirements-tick docs drawing lock clean run-env dev-env docs-env

help: ## this list
	@echo "Jackfield. Start with: make serve"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

serve: run-env console ## set up if necessary and serve the demo project at http://127.0.0.1:8420
	@$(BIN)/jackfield serve --config examples/demo/jackfield.toml $(ARGS)

console: ## build the console if npm is installed and something has changed
	@make/console

wheel: run-env ## build the wheel, with the console inside, and the sdist into dist/, and check them
	@make/console
	@$(BIN)/python make/wheel.py $(ARGS)

release: run-env ## build and check everything of a release into dist/: wheel, sdist, npm packages, image files
	@make/console
	@$(BIN)/python make/release.py $(ARGS)

image: run-env ## lint deploy/Dockerfile, validate compose and Kubernetes files, carry out the Dockerfile's steps; needs root
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python make/image.py $(ARGS)

test: dev-env ## run all tests; ARGS="tests/model" runs a part; the console is built if npm is installed
	@$(if $(findstring tests/,$(ARGS)),make/console,make/console needed && make/npm-programs && PATH="$(CURDIR)/$(BIN):$$PATH" make/programs)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: dev-env ## check format, lint, types, import rules and what is generated; the console's types if npm is installed
	$(BIN)/python make/sync_sdk.py --check
	$(BIN)/python make/sync_typescript.py --check
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	@make/console check

format: dev-env ## format the code, generate the blocking SDK and the TypeScript types
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/python make/sync_sdk.py
	$(BIN)/python make/sync_typescript.py

bench: dev-env ## run the benchmarks; ARGS=--quick is faster
	@$(BIN)/python -m bench $(ARGS)

bench-peers: dev-env ## measure other gateways (installed from PyPI) beside this one; ARGS="--quick --only call --peers direct,jackfield"
	@$(BIN)/python -m bench.comparison $(ARGS)

bench-gateways: dev-env ## measure 1, 2 and 4 gateways on PostgreSQL; ARGS=--write puts the table into docs/scale.md
	@$(BIN)/python -m bench.gateways $(ARGS)

bfcl: dev-env ## run the tasks of bfcl-eval (installed from PyPI) as plain calls and as programs; ARGS="--tasks 20"
	@$(BIN)/python -m bench.bfcl $(ARGS)

trace: dev-env ## measure the code and the path of a call, before and now; ARGS="--list FOLDER"
	@$(BIN)/python -m bench.trace $(ARGS)

wire: dev-env ## dump the wire behaviour as JSON; ARGS="--compare OLD NEW" prints differences
	@$(BIN)/python -m conformance.wire $(or $(ARGS),.)

stress: dev-env ## run the stress tests: races, kill -9 under load, long property tests; ARGS="--only kills"
	@$(BIN)/python -m stress $(ARGS)
	$(if $(ARGS),,TESTS_TIMES=10 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 3600 $(PROPERTIES))

chaos: dev-env ## calls of every kind in a storm of faults; ARGS="--seconds 60 --seeds 1 2 --store postgres --workers 2", or --only hosts
	@$(BIN)/python -m chaos $(ARGS)

soak: dev-env ## mixed load at half capacity for half an hour: nothing may grow; ARGS="--seconds 600 --store postgres"
	@$(BIN)/python -m chaos --only soak $(ARGS)
fuzz: dev-env ## fuzz every parser at a border with atheris; ARGS="--seconds 3600", ARGS="--only url --keep"
	@$(BIN)/python -m fuzz $(ARGS)

conformance: dev-env ## run the MCP conformance suite, other servers and clients; needs npm; ARGS="--leg server --subject jackfield"
	@$(BIN)/python -m conformance $(ARGS)

clients: dev-env ## run Codex, opencode and other clients against a gateway; needs npm; ARGS="--only codex"
	@$(BIN)/python -m conformance.clients $(ARGS)

docs: docs-env ## build the documentation site into build/site; ARGS=--serve shows it at http://127.0.0.1:8430
	@make/docs $(ARGS)

requirements: dev-env ## list which requirements are shown by tests; ARGS=--open lists the others
	@$(BIN)/python -m tests.requirements_report $(ARGS)

requirements-tick: dev-env ## update the ticks in tests/requirements.toml
	@$(BIN)/python -m tests.requirements_report --tick

drawing: dev-env ## redraw the package graph in docs/architecture.md from the imports
	@$(BIN)/python -m tests.package_graph --write

lock: dev-env ## update the lock files; ARGS=--upgrade upgrades all packages
	@make/lock $(ARGS)

clean: ## remove the environment and all caches; keeps the demo's data
	rm -rf tests/programs/node_modules .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis .conformance .bench build dist
	find src tests bench stress chaos fuzz conformance documentation examples make -name __pycache__ -type d -prune -exec rm -rf {} +

run-env:
	@make/prepare run

dev-env:
	@make/prepare dev

docs-env:
	@make/prepare docs
