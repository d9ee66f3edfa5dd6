# Every target creates what it needs in .venv and .cache. CONTRIBUTING.md lists the files outside the checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The tests of the packages that do no I/O.
FAST := \
	accelerators \
	admission \
	api \
	controller \
	diagnostics \
	groups \
	manifest \
	mutation \
	scenarios \
	validation

SECONDS ?= 300

.PHONY: help demo run tools prometheus test test-fast coverage browser fuzz hostile e2e chaos matrix newest-ray ray-and-jax facts ray-judge ray-readers meeting drain autoscaler mutants check bench parity schema pins rules workflows docs sbom image base push-chart release format clean
.DEFAULT_GOAL := test

# Only wheels whose hashes are in constraints.txt.
PIP := --quiet --disable-pip-version-check
VERIFIED := --require-hashes --no-deps --only-binary :all:
FROM_WHEELS := PIP_NO_INDEX=1 PIP_FIND_LINKS=.cache/wheels

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP) $(VERIFIED) -r constraints.txt
	$(BIN)/python -m pip install $(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check $(PIP)
	touch $@

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## Run the main job end to end on loopback, and show it
	$(BIN)/python -m tests.demo

.cache/certs/tls.crt: | $(READY)
	$(BIN)/ray-webhook certs issue --dir .cache/certs --days 365

run: $(READY) .cache/certs/tls.crt  ## Serve the examples in the foreground
	@echo "When it is ready, run this in another terminal:"
	@echo "  curl -s --cacert .cache/certs/ca.crt -H 'Content-Type: application/json' -d @tests/demo/review.json https://127.0.0.1:10250/mutate | $(BIN)/python -m tests.demo.answer"
	$(BIN)/ray-webhook serve --standalone --state examples --host 127.0.0.1 \
		--tls.cert-dir .cache/certs

tools: $(READY)  ## Build helm and kustomize, for the tests of the manifests, from their Go modules
	$(BIN)/python -m tests.e2e.build helm kustomize

PROMETHEUS := .cache/prometheus/usr/bin/prometheus

$(PROMETHEUS):
	mkdir -p .cache/prometheus
	cd .cache/prometheus && (apt-get download prometheus || (apt-get update -q && apt-get download prometheus)) && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb
	touch $@

prometheus: $(PROMETHEUS)  ## Unpack Debian's prometheus, for the tests of alerts and dashboard; nothing is installed

# One worker more than cores, since some tests wait. Tests of one file run in one worker.
PARALLEL := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist loadfile
# Stories mostly wait: two cores suffice for four workers. Each worker has its own control planes.
STORIES := -n 4 --dist loadfile

test: $(READY) tools prometheus  ## Run the tests; each run uses the same examples
	$(BIN)/python -m pytest $(PARALLEL)

test-fast: $(READY)  ## Run the tests of the packages that do no I/O
	$(BIN)/python -m pytest $(PARALLEL) $(FAST:%=tests/%)

coverage: $(READY) tools prometheus  ## Fail if the branch coverage of all tests is below its bound
	$(BIN)/python -m pytest $(PARALLEL) --quiet --no-header --cov --cov-report=term:skip-covered

browser: $(READY)  ## Install chromium, and test the dashboard in it
	$(BIN)/python -m pip install $(PIP) $(VERIFIED) -r tests/browser/requirements.txt
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m pytest tests/browser -m browser

fuzz: $(READY)  ## Run the property tests for SECONDS (default 300), and 1,000,000 steps of reservations, with new seeds
	$(BIN)/python -m tests.fuzz $(SECONDS)
	$(BIN)/python -m tests.reservation.stories

hostile: $(READY)  ## Attack a server on loopback while other clients use it, and write docs/contributing/hardening.md
	$(BIN)/python -m tests.hostile

# Versions that tests/e2e/tools pins, such as KUBERAY=1.4.2 KUBERNETES=1.34.4. Default: the newest.
export E2E_KUBERAY ?= $(KUBERAY)
export E2E_KUBERNETES ?= $(KUBERNETES)
# A folder with the CustomResourceDefinitions of a KubeRay release whose module is not published.
export E2E_KUBERAY_CRDS ?= $(KUBERAY_CRDS)

e2e: $(READY) tools  ## Build a control plane from its Go modules, and run the webhook against it
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m pytest tests/e2e -m e2e $(STORIES)

chaos: $(READY) tools  ## Break processes and the control plane for SECONDS, by SEED; no identity may have two pods
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m tests.e2e.chaos --seconds $(SECONDS) --seed $(or $(SEED),1)

matrix: $(READY) tools  ## Run the stories on every pair of docs/compatibility.md, and write it; continues after an interruption
	$(BIN)/python -m tests.e2e.matrix

newest-ray:  ## Install the newest Ray in its own environment
	$(PYTHON) -m venv .cache/ray
	.cache/ray/bin/python -m pip install --quiet --disable-pip-version-check --upgrade ray

facts: $(READY) newest-ray  ## Compare the facts copied from KubeRay and Ray with their newest versions
	$(BIN)/python -m tests.facts

ray-judge: $(READY) newest-ray  ## Check the pods of every TPU slice that the newest Ray supports by its own code
	$(BIN)/python -m tests.judge

ray-and-jax: newest-ray  ## Install the newest JAX beside the newest Ray
	.cache/ray/bin/python -m pip install --quiet --disable-pip-version-check --upgrade jax

meeting: $(READY) ray-and-jax  ## Start real Rays on mutated pods, and connect a JAX program by their variables
	$(BIN)/python -m tests.meeting

drain: $(READY) newest-ray  ## Delete busy workers of real Rays, and write the lost work into docs/contributing/measurements.md
	$(PYTHON) -m venv .cache/ray-2.56.1
	.cache/ray-2.56.1/bin/python -m pip install --quiet --disable-pip-version-check ray==2.56.1
	$(BIN)/python -m tests.drain

autoscaler: $(READY) newest-ray  ## Scale RayClusters of the e2e control plane by the newest Ray's autoscalers
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m pytest tests/autoscaler -m e2e

MUTATED ?= 150
mutants: $(READY) tools prometheus  ## Run the tests on MUTATED mutants of the program; 95 % have to be killed
	$(PYTHON) -m venv .cache/mutants
	.cache/mutants/bin/python -m pip install $(PIP) $(VERIFIED) -r tests/mutants/requirements.txt
	$(BIN)/python -m tests.mutants $(MUTATED)

check: $(READY)  ## Lint, check types, check the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## Measure, beside a reference in the same run
	$(BIN)/python -m tests.bench

MUTANTS ?= 20000
parity: $(READY)  ## Compare the rules with KubeRay's own code, of version KUBERAY or all, on MUTANTS broken objects each
	$(BIN)/python -m tests.parity --mutants $(MUTANTS) $(KUBERAY)
	$(BIN)/python -m tests.parity.unit_cases $(KUBERAY)
	$(BIN)/python -m tests.parity.templates

# The oldest Ray that a rule has facts of: before 2.41 (docs/rules.md, cpu-unknown).
OLDEST_RAY := 2.40.0
ray-readers: $(READY) newest-ray  ## Compare the rules with the autoscalers of the newest and the oldest Ray
	$(PYTHON) -m venv .cache/ray-$(OLDEST_RAY)
	.cache/ray-$(OLDEST_RAY)/bin/python -m pip install --quiet --disable-pip-version-check ray==$(OLDEST_RAY)
	$(BIN)/python -m tests.readers ray ray-$(OLDEST_RAY)

rules: $(READY)  ## Write docs/rules.md and docs/rules from the rules and their examples
	$(BIN)/python -m tests.validation.page

schema: $(READY)  ## Write the table of KubeRay's fields from CRDS: VERSION=FOLDER of each release
	$(BIN)/python -m tests.schema.generate $(CRDS)

pins: $(READY)  ## Write the hashes of all pinned packages after a change of constraints.txt
	$(BIN)/python -m tests.release.pins

# The pages of the site, and the files that they link to.
PAGES := README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE docs examples manifests

workflows: $(READY)  ## Lint the workflows of .github with actionlint, built from its Go module
	$(BIN)/python -m tests.e2e.build actionlint
	.cache/e2e/bin/actionlint

docs:  ## Build the documentation site into .cache/docs/site; a broken link fails
	$(PYTHON) -m venv .cache/docs
	.cache/docs/bin/python -m pip install $(PIP) $(VERIFIED) -r docs/requirements.txt
	rm -rf .cache/docs/pages && mkdir -p .cache/docs/pages
	ln -sfn $(PAGES:%=$(CURDIR)/%) .cache/docs/pages
	NO_MKDOCS_2_WARNING=1 .cache/docs/bin/mkdocs build --quiet --strict --config-file docs/mkdocs.yml

# The wheels of constraints.txt. Builds below install only from these.
.cache/wheels: constraints.txt | $(READY)
	rm -rf $@
	$(BIN)/python -m pip download $(PIP) $(VERIFIED) --dest $@ -r constraints.txt

sbom: .cache/wheels  ## Write dist/ray-webhook.cdx.json, the SBOM of the image in CycloneDX format
	rm -rf .cache/sbom .cache/image
	$(PYTHON) -m venv .cache/sbom
	.cache/sbom/bin/python -m pip install $(PIP) $(VERIFIED) -r tests/release/sbom.txt
	$(PYTHON) -m venv --without-pip .cache/image
	$(FROM_WHEELS) $(BIN)/python -m pip --python .cache/image/bin/python install $(PIP) '.[serve]'
	mkdir -p dist
	.cache/sbom/bin/cyclonedx-py environment .cache/image/bin/python --pyproject pyproject.toml \
		--output-reproducible --validate --output-file dist/ray-webhook.cdx.json
	$(BIN)/python -m tests.release.sbom dist/ray-webhook.cdx.json .cache/wheels $(BASE_DIGEST)

image: $(READY)  ## Build the image with docker or buildah; without them, run the steps of the Dockerfile in a folder
	$(BIN)/python -m tests.release.image

base: $(READY)  ## Print the digest of the base image and the time of the commit, for the image
	@$(BIN)/python -m tests.release.image base

# The registry of the release workflow, for the chart and for the image of dist/install.yaml. USER_NAME and PASSWORD are its credentials.
export REGISTRY
push-chart: tools  ## Push the chart in dist/ to REGISTRY, as OCI
	@printf %s "$$PASSWORD" | .cache/e2e/bin/helm registry login $(firstword $(subst /, ,$(REGISTRY))) --username "$$USER_NAME" --password-stdin
	.cache/e2e/bin/helm push dist/ray-webhook-[0-9]*.tgz oci://$(REGISTRY)/charts

release: $(READY) tools  ## Build wheel, sdist, chart, manifests and release notes into dist/, and check them, also against TAG
	$(BIN)/python -m tests.release.build $(TAG)

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:  ## Remove all created files
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
