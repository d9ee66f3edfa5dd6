# Every target creates what it needs in .venv and .cache; CONTRIBUTING.md tells what it leaves outside the checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The tests of the floors that do no input or output.
FAST := \
	accelerators \
	admission \
	gangs \
	groups \
	kube \
	manifest \
	mutation \
	scenarios \
	status \
	validation

SECONDS ?= 300

.PHONY: help demo run tools test test-fast fuzz hostile e2e chaos matrix newest-ray facts ray-judge autoscaler check bench parity schema format clean
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
	$(BIN)/python -m tests.e2e.build helm kustomize

test: $(READY)  ## Run the tests; each run draws the same examples
	$(BIN)/python -m pytest

test-fast: $(READY)  ## Run the tests of the floors that do no input or output
	$(BIN)/python -m pytest $(FAST:%=tests/%)

fuzz: $(READY)  ## Run the property tests with fresh seeds for SECONDS (300 unless told)
	$(BIN)/python -m tests.fuzz $(SECONDS)

hostile: $(READY)  ## Attack a server on loopback, beside good clients, and write docs/hardening.md
	$(BIN)/python -m tests.hostile

# Versions that tests/e2e/tools pins, such as KUBERAY=1.4.2 KUBERNETES=1.34.4; the newest unless they are given.
export E2E_KUBERAY ?= $(KUBERAY)
export E2E_KUBERNETES ?= $(KUBERNETES)
# A folder with the CustomResourceDefinitions of a KubeRay whose module is not published.
export E2E_KUBERAY_CRDS ?= $(KUBERAY_CRDS)

e2e: $(READY) tools  ## Build a control plane from its Go modules, and run the webhook against it
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m pytest tests/e2e -m e2e

chaos: $(READY) tools  ## Break processes and the control plane for SECONDS, by SEED; no seat may be held twice
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m tests.e2e.chaos --seconds $(SECONDS) --seed $(or $(SEED),1)

matrix: $(READY) tools  ## Run them on every pair that docs/compatibility.md is about, and write it; goes on when interrupted
	$(BIN)/python -m tests.e2e.matrix

newest-ray:  ## Install the newest Ray, alone, in an environment that nothing else sees
	$(PYTHON) -m venv .cache/ray
	.cache/ray/bin/python -m pip install --quiet --disable-pip-version-check --upgrade ray

facts: $(READY) newest-ray  ## Compare what is copied from KubeRay and Ray with their newest versions
	$(BIN)/python -m tests.facts

ray-judge: $(READY) newest-ray  ## Let the newest Ray judge the pods of every TPU slice that it knows
	$(BIN)/python -m tests.judge

autoscaler: $(READY) newest-ray  ## Let the newest Ray's autoscalers scale RayClusters of the control plane of e2e
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m pytest tests/autoscaler -m e2e

check: $(READY)  ## Lint, check types, check the floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## Measure, beside a reference in the same run
	$(BIN)/python -m tests.bench

MUTANTS ?= 20000
parity: $(READY)  ## Hold the rules against KubeRay's own code on MUTANTS broken objects (20000 unless told)
	$(BIN)/python -m tests.parity --mutants $(MUTANTS)

schema: $(READY)  ## Write the table of KubeRay's fields from CRDS, which is VERSION=FOLDER of each release
	$(BIN)/python -m tests.schema.generate $(CRDS)

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:  ## Remove everything that was created
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
