# Everything a person needs: `make up` and `make test`. Both make the virtual environment first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SECONDS ?= 120
SEED ?=
# Test processes: most tests wait for servers. Each has a broker of its own (PROCESSES=0: all in one).
PROCESSES ?= 3

.PHONY: setup up test lint bench chaos fuzz schemas clean

## up: the whole system on this machine, with demo traffic (ARGS="--no-demo --api-port 9000" …)
up: setup
	@$(BIN)/switchgear up --demo $(ARGS)

## test: style, types and every test (ARGS="-k breaker" to choose)
test: lint
	$(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder $(ARGS)

## lint: ruff and mypy
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

## bench: our figures beside the peers', in one run
bench: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m tests.bench $(ARGS)

## chaos: real processes, faults by a seed, a recount of every promise (SECONDS=600 SEED=7; exit code 1 where one is broken)
chaos: setup
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

## fuzz: by a seed, attempts on readers' SQL, then hostile messages in every topic, for so long each (SECONDS=600 SEED=7; exit code 1 with a finding)
fuzz: SECONDS = 600
fuzz: setup
	@$(BIN)/python -m tests.fuzz.sql --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)
	@$(BIN)/python -m tests.fuzz.messages --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

## schemas: write the JSON Schema and AsyncAPI files anew from the models
schemas: setup
	$(BIN)/python -m switchgear_schemas.json_schema schemas

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Switchgear needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try make PYTHON=python3.12 …")'
	@echo "Installing into $(VENV) (once; a minute or two) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

## clean: remove what setup and the tests made here
clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
