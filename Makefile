# Every command a person or CI gives. `make` lists them; DEMO_EXIT=1 lets `make demo` end by itself.
.DEFAULT_GOAL := help
.PHONY: help install lint type test test-gpu demo run migrate docs bench-latency bench-adoption bench-layouts bench-placements bench-planning bench-forecasts bench-mig bench-pages bench-streams screenshots lock clean
BIN := .venv/bin
export PYTHONUNBUFFERED := 1
# What takes long comes early, so that the workers of `make test` end together.
LEVELS := $(wildcard $(addprefix tests/,integration docker browser services property contract unit))
OWN := agents portal scheduler
SET := dev
RESOLVE := $(BIN)/uv pip compile -q --system-certs --universal --python-version 3.11 --generate-hashes \
	--no-header --annotation-style line pyproject.toml

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-15s %s\n", $$1, $$2}'

install: ## make .venv with what SET needs: dev (default), portal or agent
	@command -v python3 >/dev/null || { echo "Tessera needs Python 3.11 or newer as python3."; exit 1; }
	@python3 requirements/install.py $(SET)

lint: install type ## style, format, types, layers, and no file over 400 lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.environment size

type: install ## static types alone
	TESSERA_VAR=var $(BIN)/mypy --explicit-package-bases $(OWN) manage.py requirements tests/environment docs/examples

test: install ## everything: install the servers that are missing, start them, test, stop them
	$(BIN)/python -m tests.environment install
	$(BIN)/python -m pytest --levels-must-run -q -n auto --maxprocesses 8 $(LEVELS)

test-gpu: ## read-only checks on the real NVIDIA driver of this machine; needs no install
	@$(or $(wildcard $(BIN)/python),python3) -m tests.gpu

demo: SET := portal
demo: install ## the whole product on this machine, with an example job and no other service
	$(BIN)/python manage.py demo

run: SET := portal
run: install ## the same, without the example job
	$(BIN)/python manage.py demo --no-job

migrate: install ## bring the database that TESSERA_DATABASE_URL names up to date
	$(BIN)/python manage.py migrate

docs: install ## write the generated pages under docs/ again
	$(BIN)/python -m scheduler.core.model.diagrams > docs/state-machines.md

bench-latency: install ## how long a change takes from the portal to a node, as JSON
	$(BIN)/python -m tests.benchmarks.latency

bench-adoption: install ## kill -9 of an agent with running containers, ADOPTION_KILLS times (100), as JSON
	$(BIN)/python -m tests.benchmarks.adoption

bench-layouts: install ## what the table of legal MIG layouts answers, beside a dictionary, as JSON
	$(BIN)/python -m tests.benchmarks.layouts

bench-placements: install ## what one placement costs by number of nodes, on openb, as JSON
	$(BIN)/python -m tests.benchmarks.placements

bench-planning: install ## one planning pass: 10,000 waiting jobs on 6,212 GPUs, as JSON
	$(BIN)/python -m tests.benchmarks.planning_pass

bench-forecasts: install ## how good expected starts are on the traces, half an hour, as JSON
	$(BIN)/python -m tests.benchmarks.forecasts

bench-mig: install ## the table of docs/research/mig-packing.md: MIG slices by mix, rule and moves, as JSON
	$(BIN)/python -m tests.benchmarks.mig

bench-pages: install ## server time and queries of every page on 10,000 jobs and 1,000 nodes, as JSON; ARGS=--help
	$(BIN)/python -m tests.benchmarks.pages $(ARGS)

screenshots: install ## every page from a seeded cluster into docs/screenshots/: light, dark, zh, narrow
	$(BIN)/python -m tests.browser.screenshots

bench-streams: install ## pages while 300 event streams are open in one web process, as JSON
	$(BIN)/python -m tests.benchmarks.streams

lock: install ## resolve requirements/*.lock again after pyproject.toml changed
	$(RESOLVE) --extra agent -o requirements/agent.lock
	$(RESOLVE) --extra agent --extra portal --extra cli -o requirements/portal.lock
	$(RESOLVE) --extra cli -o requirements/cli.lock
	$(RESOLVE) --extra saml -c requirements/portal.lock -o requirements/saml.lock
	$(RESOLVE) --extra ldap -c requirements/portal.lock -o requirements/ldap.lock
	$(RESOLVE) --extra agent --extra portal --extra cli --extra saml --group dev -o requirements/dev.lock

clean: ## remove what can be made again: .venv, caches, var
	rm -rf .venv .venv-gpu var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
