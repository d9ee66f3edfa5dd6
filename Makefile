# Every target creates what it needs in .venv; nothing outside the checkout is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo run tools test e2e check bench schema format clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e . --group dev
	touch $@

demo: $(READY)  ## Run the main job end to end on loopback, and show it
	$(BIN)/python -m tests.demo

.cache/certs/tls.crt: | $(READY)
	$(BIN)/ray-webhook certs issue --dir .cache/certs --days 365

run: $(READY) .cache/certs/tls.crt  ## Serve the examples in the foreground
	$(BIN)/ray-webhook serve --standalone --state examples --host 127.0.0.1 \
		--tls.certificate .cache/certs/tls.crt --tls.key .cache/certs/tls.key

tools: $(READY)  ## Build helm and kustomize, which the tests of the manifests run, from their Go modules
	$(BIN)/python tests/e2e/build.py helm kustomize

test: $(READY)  ## Run the tests
	$(BIN)/python -m pytest

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

CRDS ?= 1.6.2=.cache/e2e/crds
schema: $(READY)  ## Write the table of KubeRay's fields; CRDS is VERSION=FOLDER of each release
	$(BIN)/python -m tests.schema.generate $(CRDS)

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:  ## Remove everything that was created
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
