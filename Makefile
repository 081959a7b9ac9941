# What there is to do here. Every target sets up .venv first, once; PYTHON names the interpreter (3.11 or newer).
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
GLUE := kvwal/node/glue.jar
EXTRAS := test,check,bench
# Of hypothesis, and of the sample of long tests.
SEED := $(shell echo $$RANDOM)
SEEDS = --hypothesis-seed=$(SEED) --sample-seed=$(SEED)
# Four processes for two cores, that each take whole files: most long tests wait for one core, or for a disk. In the order of
# collection, which begins with the folders that one process takes as a whole, so that no process ends long after the others.
# The longest tests are listed at the end.
SPREAD := --numprocesses=4 --dist=loadfile --no-loadscope-reorder --durations=25 --durations-min=3
# Spark needs a Java, the machine's own where it is new enough, else the one that PyPI carries; and its workers need our Python.
WITH_JAVA = export PYSPARK_PYTHON="$$PWD/$(BIN)/python" && home="$$($(BIN)/python deploy/java_home.py)" && if [ -n "$$home" ]; then export JAVA_HOME="$$home"; fi &&

# One line for pip's hundreds, which a terminal shows as it changes.
FOUND = while read -r what name _; do \
	case "$$what" in Collecting) said="packages found: $$((++n)), the last is $$name" ;; Installing) said="packages to install: $$n" ;; *) continue ;; esac; \
	if [ -t 1 ]; then printf '\r\033[K  %s' "$$said"; elif [ "$$what" = Installing ]; then echo "  $$said"; fi; \
	done; [ ! -t 1 ] || echo

# Tests start hundreds of programs: without bytecode each would compile kvwal anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run run-cluster test test-long compose-test soak sweep mutants compat versions spark-api check format docs bench wheel constraints clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt deploy/java_home.py deploy/fetch_hazelcast.py
	@[ -n "$(PYTHON)" ] || { echo "kvwal needs Python 3.11 or newer; name one with make PYTHON=…"; exit 1; }
	@echo "Setting up $(VENV): 1.7 GB, once, two to four minutes"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@# What builds kvwal, and the packages that come as source only: pinned like everything else, so nothing is built in isolation.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling editables setuptools wheel
	@set -o pipefail; $(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[$(EXTRAS)]' | $(FOUND)
	@$(WITH_JAVA) $(BIN)/python deploy/fetch_hazelcast.py
	@touch $@

$(GLUE): $(STAMP) $(shell find kvwal/node/java/src -name "*.java") deploy/build_glue.py
	@$(WITH_JAVA) $(BIN)/python deploy/build_glue.py

setup: $(STAMP) $(GLUE) ## everything the other targets need
	@if $(BIN)/python -c "import pytest" 2>/dev/null; then $(WITH_JAVA) $(BIN)/python -m tests.support.java.prepare; fi

run: $(STAMP) ## a real Spark job recorded, killed, recovered and restored, under data/demo
	@$(WITH_JAVA) $(BIN)/python examples/run.py

run-cluster: $(STAMP) $(GLUE) ## a real Spark job recorded into three nodes, which are all killed, under data/demo-cluster
	@$(WITH_JAVA) $(BIN)/python examples/run_cluster.py

test: $(STAMP) $(GLUE) ## tests of every kind, of the long ones a sample; ARGS='-k name' chooses among all
	@# Those of the repository are in `make check`.
	@$(WITH_JAVA) $(BIN)/python -m pytest $(SPREAD) $(SEEDS) $(or $(ARGS),--part=sample --ignore=tests/repository)

test-long: $(STAMP) $(GLUE) ## the long tests that `make test` with the same SEED leaves out; EVERY=4 takes a quarter
	@$(WITH_JAVA) $(BIN)/python deploy/fetch_event_logs.py
	@$(WITH_JAVA) $(BIN)/python -m pytest $(SPREAD) $(SEEDS) --part=rest --every=$(or $(EVERY),1)

compose-test: $(STAMP) $(GLUE) ## docker-compose.yml in real containers: build, up, submit, kills, lost volumes, down and up
	@$(WITH_JAVA) KVWAL_COMPOSE_TEST=1 $(BIN)/python -m pytest -q -s -rs tests/compose

soak: $(STAMP) ## new seeds of the simulation; SECONDS=600 for that long
	@$(BIN)/python -m tests.simulation.run --seconds $(or $(SECONDS),60)

sweep: $(STAMP) ## kill, or hurt, a whole life of a store at each of its system calls; ARGS='--report PAGE' writes the figures
	@$(BIN)/python -m tests.support.sweep.run $(ARGS)

mutants: $(STAMP) ## break each promise in a copy of the source, and see the tests notice; ARGS='words' chooses
	@$(BIN)/python -m tests.mutants.run $(ARGS)

compat: $(STAMP) $(GLUE) ## the tests of Hazelcast's client, on plain members and on nodes; CLIENT_TESTS=FOLDER has its sources
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt parameterized
	@$(WITH_JAVA) PYTHONPATH="$$PWD/tests:$$PWD" $(BIN)/python -m compat.run '$(CLIENT_TESTS)' $(ARGS)

versions: $(STAMP) $(GLUE) ## members of an earlier version beside members of this one; EARLIER=PROGRAM is its `kvwal`
	@$(WITH_JAVA) KVWAL_EARLIER='$(EARLIER)' $(BIN)/python -m pytest -q -s -rs tests/compat/test_versions.py

spark-api: $(STAMP) ## every answer of Spark's REST API beside the console's: Spark's test jars, and its History Server
	@$(WITH_JAVA) $(BIN)/python deploy/fetch_event_logs.py
	@$(WITH_JAVA) $(BIN)/python -m tests.support.spark_api.run

check: $(STAMP) ## format, lint, types, layers, the rules of the repository
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/repository

format: $(STAMP) ## let ruff lay out the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) $(GLUE) ## every question of docs/benchmarks.md, measured here; ARGS=peers for one group; QUICK=1 only tries them
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.run $(if $(QUICK),--quick) $(ARGS)

wheel: $(STAMP) $(GLUE) ## dist/kvwal-….whl
	@rm -rf dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

constraints: ## pin anew what an empty environment gets today
	@scratch="$$(mktemp -d)" && trap 'rm -rf "$$scratch"' EXIT && $(PYTHON) -m venv "$$scratch/venv" && \
	"$$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check '.[$(EXTRAS),compat]' && \
	{ head -2 constraints.txt; "$$scratch/venv/bin/python" -m pip freeze --all --exclude kvwal --exclude pip; } > "$$scratch/pins" && \
	cp "$$scratch/pins" constraints.txt

clean: ## remove what was built or cached; .venv and data/ stay
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
