# Start with `make up` and `make test`. Every target makes the virtual environment first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SECONDS ?= 120
SEED ?=
# Test processes: most tests wait for servers, which they share (PROCESSES=0: all in one).
PROCESSES ?= 3
# Some images forbid byte code. Then each process compiles everything that it imports: 5 s instead of 1 s.
unexport PYTHONDONTWRITEBYTECODE
INSTALL = $(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt

.PHONY: setup up check test test-all lint docs adapters bench chaos fuzz schemas requirements release pin-images clean

## up: the whole system on this machine, with demo traffic (ARGS="--no-demo --api-port 9000" …)
up: $(VENV)/.runs
	@$(BIN)/switchgear up $(if $(filter --demo --no-demo,$(ARGS)),,--demo) $(ARGS)

## check: style, types and the unit tests that need no server: a minute (ARGS="-k breaker" to choose)
check: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/python -m tests.support.side_by_side check $(ARGS)

## test: the whole product, with a real Kafka and ClickHouse's engine: about ten minutes (ARGS="-k breaker" to choose)
test: setup
	@PROCESSES=$(PROCESSES) $(BIN)/python -m tests.support.side_by_side test $(ARGS)

## test-all: test's tests, frameworks, the browser, chaos, fuzzers, load, many examples of each property: about forty minutes (ARGS="tests/chaos" to choose)
test-all: setup
	$(BIN)/python -m pytest --dist=loadfile --no-loadscope-reorder --numprocesses=$(PROCESSES) -m '' $(ARGS)

## lint: ruff and mypy
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

## docs: the documentation site, in site/; a broken link is an error
docs: setup
	$(BIN)/python docs/llms.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

## adapters: every adapter with its framework, older versions too; writes the table of docs/integrations (ARGS="langchain" to choose)
adapters: setup
	$(BIN)/python -m tests.frameworks.environments $(ARGS)

## bench: measure Switchgear and other circuit breakers in one run
bench: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m tests.bench $(ARGS)

## chaos: break real processes at random, then check every promise (SECONDS=600 SEED=7; exit code 1 if one is broken)
chaos: setup
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

## fuzz: hostile SQL, then hostile messages in every topic, each for SECONDS (SECONDS=600 SEED=7; exit code 1 with a finding)
fuzz: SECONDS = 600
fuzz: setup
	@$(BIN)/python -m tests.fuzz.sql --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)
	@$(BIN)/python -m tests.fuzz.messages --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

## schemas: write the JSON Schema and AsyncAPI files from the models, and the source that is generated from them
schemas: setup
	$(BIN)/python -m switchgear_schemas.json_schema schemas
	$(BIN)/python -m switchgear_schemas.generate .
	$(BIN)/python -m switchgear_api.console.generate

## requirements: the image's packages with the hash of each file, after a change of pyproject.toml or constraints.txt (asks the package index)
COMPILE = $(BIN)/python -m uv pip compile --quiet --generate-hashes --universal --python-version 3.13 --no-annotate \
	--custom-compile-command 'make requirements' --constraint constraints.txt
requirements: setup
	$(COMPILE) --extra gateway --extra stream --extra sink pyproject.toml --output-file deploy/requirements.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(COMPILE) - --output-file deploy/requirements-build.txt

## release: what a release consists of, of the last commit, in dist/: built twice and compared, checked, with notes; publishes nothing (needs Node.js)
release: setup
	$(BIN)/python deploy/release.py

## pin-images: write the digest of each image into docker-compose.yml and the Dockerfile (asks their registry by docker buildx)
pin-images: setup
	$(BIN)/python deploy/pin_images.py

setup: $(VENV)/.installed

# What runs the system: 0.85 GB, of which the engine has 0.55. Without what chdb requires for data frames (deploy/unused.txt).
$(VENV)/.runs: pyproject.toml constraints.txt deploy/unused.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Switchgear needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try make PYTHON=python3.12 …")'
	@echo "Installing what runs into $(VENV) (once; half a minute) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@$(INSTALL) --overrides deploy/unused.txt --editable '.[alerts,embedded]'
	@$(BIN)/python -m compileall -q -j 0 schemas producers stream sinks deploy > /dev/null
	@touch $@

# The rest, for tests and development: 1.2 GB more. A test is about pandas; pyarrow is for `make bench` alone. With rfc3987-syntax, which checks
# a format that nothing here has, each import of jsonschema compiles 38 grammars: 1.5 to 3 s a process.
$(VENV)/.installed: $(VENV)/.runs
	@echo "Installing what tests need into $(VENV) (once; a minute) …"
	@{ grep ^pyarrow deploy/unused.txt; echo 'rfc3987-syntax ; python_version < "3"'; } > $(VENV)/overrides.txt
	@$(INSTALL) --overrides $(VENV)/overrides.txt --editable '.[dev]'
	@echo "Reading the types of 2,400 library files (once; a third of a minute) …"
	@$(BIN)/python -m mypy --num-workers 2 > /dev/null || true # make check says what is wrong
	@touch $@

## clean: remove what setup, the tests and a release made here
clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist site
