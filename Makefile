# Every command for people and CI. `make` lists them; with DEMO_EXIT=1, `make demo` ends by itself.
.DEFAULT_GOAL := help
.PHONY: help install lint type test test-slow pytest mutants test-gpu demo run migrate docs bench-latency bench-adoption bench-loop bench-layouts bench-placements bench-planning bench-forecasts bench-mig bench-pages bench-streams bench-agent-door bench-artifacts bench-throughput bench-scale bench-rolling bench-overlay bench-apps screenshots lock wheel clean
BIN := .venv/bin
export PYTHONUNBUFFERED := 1
# Each server that a test or a benchmark starts would compile every module anew.
export PYTHONDONTWRITEBYTECODE :=
# Slow levels first, so that the workers of `make test` finish together.
LEVELS := $(wildcard $(addprefix tests/,integration docker browser services property contract unit))
# One more than there are cores: tests of real servers wait much of their time.
WORKERS := $(shell expr $$(nproc) + 1)
OWN := agents portal scheduler
SET := dev
RESOLVE := $(BIN)/uv pip compile -q --system-certs --universal --python-version 3.11 --generate-hashes \
	--no-header --annotation-style line pyproject.toml

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-16s %s\n", $$1, $$2}'

install: ## create .venv with the packages of SET: dev (default), portal, agent, cli, saml, ldap or s3
	@command -v python3 >/dev/null || { echo "Tessera needs Python 3.11 or newer as python3."; exit 1; }
	@python3 requirements/install.py $(SET)

lint: install type ## style, format, types, layers, and no file over 400 lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.environment size

type: install ## only the static types
	TESSERA_VAR=var $(BIN)/mypy --explicit-package-bases $(OWN) manage.py requirements tests/environment tests/mutants tests/benchmarks docs/examples

test: TESTS := not slow
test: pytest ## install missing servers, start them, run all but the slow tests, stop them

test-slow: TESTS := slow or hypothesis
test-slow: OPTIONS := --hypothesis-profile=full
test-slow: pytest ## run the slow tests: soaks, kills, every page in every theme and width, all generated examples

pytest: install
	$(BIN)/python -m tests.environment install
	$(BIN)/python -m compileall -q -j 0 $(OWN)
	$(BIN)/python -m pytest --levels-must-run -q -n $(WORKERS) --maxprocesses 8 -m "$(TESTS)" $(OPTIONS) $(LEVELS)

mutants: install ## break the code on purpose, and print as JSON what no test notices; takes hours; ARGS=--help
	$(BIN)/python -m tests.mutants $(ARGS)

test-gpu: ## check this machine's NVIDIA driver, read-only; LEVEL=use runs programs on the GPU; needs no install
	@$(or $(wildcard $(BIN)/python),python3) -m tests.gpu $(if $(LEVEL),--level $(LEVEL)) $(if $(ROWS),--rows $(ROWS))

demo: SET := portal
demo: install ## run the whole product on this machine with an example job; needs no other service
	$(BIN)/python manage.py demo

run: SET := portal
run: install ## run the same without the example job
	$(BIN)/python manage.py demo --no-job

migrate: install ## apply migrations to the database of TESSERA_DATABASE_URL
	$(BIN)/python manage.py migrate

docs: install ## regenerate docs/state-machines.md
	$(BIN)/python -m scheduler.core.model.diagrams > docs/state-machines.md

bench-latency: install ## time of a change from the portal to a node, as JSON
	$(BIN)/python -m tests.benchmarks.latency

bench-adoption: install ## adoption of containers after kill -9 of the agent, ADOPTION_KILLS times (100), as JSON
	$(BIN)/python -m tests.benchmarks.adoption

bench-loop: install ## driver calls of a refresh of 8 GPUs with 56 slices, and the longest wait of a stop, also while images are pulled, as JSON
	$(BIN)/python -m tests.benchmarks.loop

bench-layouts: install ## time of the MIG layout table, compared with a dictionary, as JSON
	$(BIN)/python -m tests.benchmarks.layouts

bench-placements: install ## time of one placement by number of nodes, on openb, as JSON
	$(BIN)/python -m tests.benchmarks.placements

bench-planning: install ## time of a planning pass with 10,000 waiting jobs on 6,212 GPUs, as JSON
	$(BIN)/python -m tests.benchmarks.planning_pass

bench-forecasts: install ## accuracy of expected starts on the traces, as JSON; takes half an hour
	$(BIN)/python -m tests.benchmarks.forecasts

bench-mig: install ## the table of docs/research/mig-packing.md, MIG slices by mix, rule and moves, as JSON
	$(BIN)/python -m tests.benchmarks.mig

bench-pages: install ## server time and queries of every page, 10,000 jobs and 1,000 nodes, as JSON; ARGS=--help
	$(BIN)/python -m tests.benchmarks.pages $(ARGS)

bench-agent-door: install ## /healthz beside 1 MiB bodies at the agents' endpoint, and the longest stall, as JSON
	$(BIN)/python -m tests.benchmarks.agent_door

bench-artifacts: install ## a file of 2 GiB from a node, cut at 10 places: speed beside curl, growth of memory, checksum, as JSON
	$(BIN)/python -m tests.benchmarks.artifacts

bench-throughput: install ## whole jobs a second and what each costs, beside a bare spawn and Slurm, as JSON; ARGS=--help
	$(BIN)/python -m tests.benchmarks.throughput $(ARGS)

bench-scale: install ## 1,000 nodes: times of reports, submits, placements and sweeps, bursts and restarts, as JSON; ARGS=--help
	$(BIN)/python -m tests.benchmarks.scale $(ARGS)

bench-rolling: install ## requests and streams while two web hosts behind nginx or Caddy are restarted in turn, as JSON; as root; ARGS=--help
	$(BIN)/python -m tests.benchmarks.rolling $(ARGS)

bench-apps: install ## what the portal adds between a client and a model server in a job: latency, an upload of 1 GiB, 1,200 WebSockets, as JSON
	$(BIN)/python -m tests.benchmarks.apps

bench-overlay: install ## speed and latency of a gang's network over two engines, beside a bridge of one, as JSON; as root
	$(BIN)/python -m tests.benchmarks.overlay

screenshots: install ## write docs/screenshots/: every page of a seeded cluster in light, dark, zh, narrow
	$(BIN)/python -m tests.browser.screenshots

bench-streams: install ## time of pages while one web process has 300 open event streams, as JSON
	$(BIN)/python -m tests.benchmarks.streams

lock: install ## resolve requirements/*.lock again, after a change of pyproject.toml
	$(RESOLVE) --extra agent -o requirements/agent.lock
	$(RESOLVE) --extra agent --extra portal --extra cli -o requirements/portal.lock
	$(RESOLVE) --extra cli -o requirements/cli.lock
	$(RESOLVE) --extra saml -c requirements/portal.lock -o requirements/saml.lock
	$(RESOLVE) --extra ldap -c requirements/portal.lock -o requirements/ldap.lock
	$(RESOLVE) --extra s3 -c requirements/portal.lock -o requirements/s3.lock
	$(RESOLVE) --extra agent --extra portal --extra cli --extra saml --extra s3 --group dev -o requirements/dev.lock

wheel: install ## build dist/: the wheel of all commands, and the lock files of its machines
	$(BIN)/python -m pip wheel -q --no-deps -w dist . && rm -rf build tessera_gpu.egg-info
	cp requirements/agent.lock requirements/cli.lock requirements/portal.lock dist/

clean: ## remove .venv, caches and var
	rm -rf .venv .venv-gpu var dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
