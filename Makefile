# Every target creates what it needs in .venv and .cache. CONTRIBUTING.md lists the files outside the checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The tests of the packages that do no I/O.
FAST := \
	webhook/accelerators \
	webhook/admission \
	webhook/api \
	webhook/check \
	webhook/controller \
	webhook/diagnostics \
	webhook/diff \
	webhook/explain \
	webhook/groups \
	webhook/manifest \
	webhook/mutation \
	webhook/objects \
	webhook/validation \
	scenarios

.PHONY: help demo run test test-fast test-manifests browser e2e bench check format generate docs image release clean
.DEFAULT_GOAL := help

# Only wheels whose hashes are in constraints.txt.
PIP := --quiet --disable-pip-version-check
VERIFIED := --require-hashes --no-deps --only-binary :all:
FROM_WHEELS := PIP_NO_INDEX=1 PIP_FIND_LINKS=.cache/wheels

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 14) else f"Python 3.11 to 3.14 is needed, and $(PYTHON) is {sys.version.split()[0]}: set PYTHON, as in: make PYTHON=python3.13")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP) $(VERIFIED) -r constraints.txt
	$(BIN)/python -m pip install $(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check $(PIP)
	touch $@

help:  ## List the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile
	@echo; echo "More for measurements and nightly runs: make lab"

##@ Try it

demo: $(READY)  ## Run the main job end to end on loopback, and show it
	$(BIN)/python -m tests.demo

.cache/certs/tls.crt: | $(READY)
	$(BIN)/ray-webhook certs issue --dir .cache/certs --days 365

run: $(READY) .cache/certs/tls.crt  ## Serve the examples in the foreground
	@echo "When it is ready, run this in another terminal:"
	@echo "  curl -s --cacert .cache/certs/ca.crt -H 'Content-Type: application/json' -d @tests/demo/review.json https://127.0.0.1:10250/mutate | $(BIN)/python -m tests.demo.answer"
	$(BIN)/ray-webhook serve --standalone --state examples --host 127.0.0.1 \
		--tls.cert-dir .cache/certs

##@ Test

# One worker more than cores, since some tests wait. Tests of one file run in one worker.
PARALLEL := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist loadfile
# Stories mostly wait: two cores suffice for four workers. Each worker has its own control planes.
STORIES := -n 4 --dist loadfile

test: $(READY)  ## Run the tests that need Python alone; each run uses the same examples
	$(BIN)/python -m pytest $(PARALLEL)
	@echo "Not run here: make test-manifests (helm, kustomize, promtool), make browser (chromium), make e2e (a control plane)"

test-fast: $(READY)  ## Run the tests of the packages that do no I/O
	$(BIN)/python -m pytest $(PARALLEL) $(FAST:%=tests/%)

test-manifests: $(READY) tools  ## Run the tests of the manifests with helm, kustomize and promtool, built from their Go modules
	$(BIN)/python -m pytest $(PARALLEL) -m manifests

browser: $(READY)  ## Install chromium, and test the dashboard in it
	$(BIN)/python -m pip install $(PIP) $(VERIFIED) -r tests/browser/requirements.txt
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m pytest tests/browser -m browser

# Versions that tests/e2e/tools pins, such as KUBERAY=1.4.2 KUBERNETES=1.34.4. Default: the newest.
export E2E_KUBERAY ?= $(KUBERAY)
export E2E_KUBERNETES ?= $(KUBERNETES)

e2e: $(READY) tools  ## Build a control plane from its Go modules, and run the webhook against it
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m pytest tests/e2e -m e2e $(STORIES)

bench: $(READY)  ## Measure, beside a reference in the same run
	$(BIN)/python -m tests.lab.bench

##@ Change

check: $(READY)  ## Lint, check types, import contracts and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.generate --check

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

generate: $(READY)  ## Write all generated pages, schemas and scenarios
	$(BIN)/python -m tests.generate

# The pages of the site, and the files that they link to.
PAGES := README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE certs docs examples manifests

docs: $(READY)  ## Build the documentation site into .cache/docs/site; a broken link fails
	$(PYTHON) -m venv .cache/docs
	$(BIN)/python -m pip --python .cache/docs/bin/python install $(PIP) $(VERIFIED) -r docs/requirements.txt
	rm -rf .cache/docs/pages && mkdir -p .cache/docs/pages
	ln -sfn $(PAGES:%=$(CURDIR)/%) .cache/docs/pages
	NO_MKDOCS_2_WARNING=1 .cache/docs/bin/mkdocs build --quiet --strict --config-file docs/mkdocs.yml

##@ Release

image: $(READY)  ## Build the image with docker or buildah; without them, run the steps of the Dockerfile in a folder
	$(BIN)/python -m tests.release.image

release: $(READY) tools  ## Build wheel, sdist, chart, manifests and release notes into dist/, and check them, also against TAG
	$(BIN)/python -m tests.release.build $(TAG)

clean:  ## Remove all created files
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist

include tests/lab/lab.mk
