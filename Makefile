# Every target creates what it needs in .venv and .cache; CONTRIBUTING.md tells what it leaves outside the checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The tests of the floors that do no input or output.
FAST := \
	admission \
	groups \
	kube \
	mutation \
	scenarios \
	validation

SECONDS ?= 300

.PHONY: help demo run tools test test-fast fuzz e2e check bench format clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e . --group dev
	touch $@

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## Run the main job end to end on loopback, and show it
	$(BIN)/python -m tests.demo

.cache/certs/tls.crt: | $(READY)
	$(BIN)/ray-webhook certs issue --dir .cache/certs --days 365

run: $(READY) .cache/certs/tls.crt  ## Serve the examples in the foreground
	$(BIN)/ray-webhook serve --standalone --state examples --host 127.0.0.1 \
		--tls.certificate .cache/certs/tls.crt --tls.key .cache/certs/tls.key

tools: $(READY)  ## Build helm and kustomize, which the tests of the manifests run, from their Go modules
	$(BIN)/python tests/e2e/build.py helm kustomize

test: $(READY)  ## Run the tests; each run draws the same examples
	$(BIN)/python -m pytest

test-fast: $(READY)  ## Run the tests of the floors that do no input or output
	$(BIN)/python -m pytest $(FAST:%=tests/%)

fuzz: $(READY)  ## Run the property tests with fresh seeds for SECONDS (300 unless told)
	$(BIN)/python -m tests.fuzz $(SECONDS)

e2e: $(READY) tools  ## Build a control plane from its Go modules, and run the webhook against it
	$(BIN)/python tests/e2e/build.py
	$(BIN)/python -m pytest tests/e2e -m e2e

check: $(READY)  ## Lint, check types, check the floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## Measure, beside a reference in the same run
	$(BIN)/python -m tests.bench

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:  ## Remove everything that was created
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
