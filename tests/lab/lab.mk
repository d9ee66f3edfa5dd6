# Targets for measurements, nightly runs and releases; `make lab` lists them. Included by the Makefile.

SECONDS ?= 300

.PHONY: lab autoscaler base chaos checksums coverage drain facts fuzz hostile kuberay lowest mutants newest-ray newest-rendezvous parity pins push-chart ray-parsers ray-slices rendezvous sbom tools workflows

lab:  #: List these targets
	@awk -F ':.*#: ' '/^[a-z0-9-]+:.*#: / { printf "  %-17s %s\n", $$1, $$2 }' tests/lab/lab.mk

# Programs of the tests of the manifests.
tools: $(READY)  #: Build helm, kustomize, prometheus and promtool from their Go modules
	$(BIN)/python -m tests.e2e.build helm kustomize prometheus promtool

coverage: $(READY) tools  #: Fail if the branch coverage of all tests is below its bound
	$(BIN)/python -m pytest $(PARALLEL) --quiet --no-header --cov --cov-report=term:skip-covered

fuzz: $(READY)  #: Run the property tests in rounds for SECONDS (default 300), and 1,000,000 steps of reservations, with new seeds
	end=$$(($$(date +%s) + $(SECONDS))); while [ $$(date +%s) -lt $$end ]; do \
		$(BIN)/python -m pytest -q $(PARALLEL) -m hypothesis --hypothesis-profile=fuzz || exit 1; done
	$(BIN)/python -m tests.webhook.reservation.stories

hostile: $(READY)  #: Attack a server on loopback while other clients use it, and write docs/contributing/hardening.md
	$(BIN)/python -m tests.lab.hostile

chaos: $(READY) tools  #: Break processes and the control plane for SECONDS, by SEED; no identity may have two pods
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m tests.lab.chaos --seconds $(SECONDS) --seed $(or $(SEED),1)

MUTATED ?= 150
mutants: $(READY)  #: Run the tests of changed lines on MUTATED mutants of the program; 70 % have to be killed
	$(PYTHON) -m venv --clear .cache/mutants
	.cache/mutants/bin/python -m pip install $(PIP) $(VERIFIED) -r tests/lab/mutants/requirements.txt
	$(BIN)/python -m tests.lab.mutants $(MUTATED) $(SEED)

MUTANTS ?= 20000
parity: $(READY)  #: Compare the rules with KubeRay's own code, of version KUBERAY or all, on MUTANTS broken objects each
	$(BIN)/python -m tests.lab.parity --mutants $(MUTANTS) $(KUBERAY)
	$(BIN)/python -m tests.lab.parity.unit_cases $(KUBERAY)
	$(BIN)/python -m tests.lab.parity.templates

kuberay: $(READY)  #: Add KubeRay RELEASE to the tables, from its module or SOURCE (its ray-operator), and list what differs
	$(BIN)/python -m tests.schema.release $(RELEASE) $(SOURCE)

# Hashes are not checked: these are not the versions of constraints.txt.
LOWEST := .cache/lowest
lowest:  #: Run the tests with the lowest versions of the direct dependencies
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install $(PIP) uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct --all-extras --group dev --python $(LOWEST)/bin/python \
		--output-file $(LOWEST)/requirements.txt pyproject.toml
	$(LOWEST)/bin/python -m pip install $(PIP) -r $(LOWEST)/requirements.txt hatchling editables
	$(LOWEST)/bin/python -m pip install $(PIP) --no-deps --no-build-isolation -e .
	$(LOWEST)/bin/python -m pytest $(PARALLEL)

pins: $(READY)  #: Write the hashes of all pinned packages after a change of constraints.txt
	$(BIN)/python -m tests.release.pins

workflows: $(READY)  #: Lint the workflows of .github with actionlint, built from its Go module
	$(BIN)/python -m tests.e2e.build actionlint
	.cache/e2e/bin/actionlint -shellcheck= -pyflakes=

newest-ray: $(READY)  #: Install the newest Ray in its own environment
	$(PYTHON) -m venv .cache/ray
	$(BIN)/python -m pip --python .cache/ray/bin/python install --quiet --disable-pip-version-check --upgrade ray

facts: $(READY) newest-ray  #: Compare the facts copied from KubeRay and Ray with their newest versions
	$(BIN)/python -m tests.lab.facts

ray-slices: $(READY) newest-ray  #: Check the pods of every TPU slice that the newest Ray supports by its own code
	$(BIN)/python -m tests.lab.ray_slices

# The oldest Ray that a rule has facts of: before 2.41 (docs/rules.md, cpu-unknown).
OLDEST_RAY := 2.40.0
ray-parsers: $(READY) newest-ray  #: Compare the rules with the autoscalers of the newest and the oldest Ray
	$(PYTHON) -m venv .cache/ray-$(OLDEST_RAY)
	$(BIN)/python -m pip --python .cache/ray-$(OLDEST_RAY)/bin/python install --quiet --disable-pip-version-check ray==$(OLDEST_RAY)
	$(BIN)/python -m tests.lab.ray_parsers ray ray-$(OLDEST_RAY)

rendezvous: $(READY)  #: Start real Rays on mutated pods, and connect a JAX program by their variables
	$(PYTHON) -m venv .cache/ray
	$(BIN)/python -m pip --python .cache/ray/bin/python install $(PIP) $(VERIFIED) -r tests/lab/rendezvous/requirements.txt
	$(BIN)/python -m tests.lab.rendezvous

newest-rendezvous: $(READY) newest-ray  #: The same with the newest Ray and the newest JAX
	$(BIN)/python -m pip --python .cache/ray/bin/python install --quiet --disable-pip-version-check --upgrade jax
	$(BIN)/python -m tests.lab.rendezvous

drain: $(READY) newest-ray  #: Delete busy workers of real Rays, and write the lost work into docs/contributing/measurements.md
	$(PYTHON) -m venv .cache/ray-2.56.1
	$(BIN)/python -m pip --python .cache/ray-2.56.1/bin/python install --quiet --disable-pip-version-check ray==2.56.1
	$(BIN)/python -m tests.lab.drain

autoscaler: $(READY) newest-ray  #: Scale RayClusters of the e2e control plane by the newest Ray's autoscalers
	$(BIN)/python -m tests.e2e.build
	$(BIN)/python -m pytest tests/lab/autoscaler -m e2e

# The wheels of constraints.txt. Builds below install only from these.
.cache/wheels: constraints.txt | $(READY)
	rm -rf $@
	$(BIN)/python -m pip download $(PIP) $(VERIFIED) --dest $@ -r constraints.txt

sbom: .cache/wheels  #: Write dist/ray-webhook.cdx.json, the SBOM of the image in CycloneDX format
	rm -rf .cache/sbom .cache/image
	$(PYTHON) -m venv .cache/sbom
	.cache/sbom/bin/python -m pip install $(PIP) $(VERIFIED) -r tests/release/sbom.txt
	$(PYTHON) -m venv --without-pip .cache/image
	$(FROM_WHEELS) $(BIN)/python -m pip --python .cache/image/bin/python install $(PIP) '.[serve]'
	mkdir -p dist
	.cache/sbom/bin/cyclonedx-py environment .cache/image/bin/python --pyproject pyproject.toml \
		--output-reproducible --validate --output-file dist/ray-webhook.cdx.json
	$(BIN)/python -m tests.release.sbom dist/ray-webhook.cdx.json .cache/wheels $(BASE_DIGEST)

base: $(READY)  #: Print the digest of the base image and the time of the commit, for the image
	@$(BIN)/python -m tests.release.image base

checksums: $(READY)  #: Write the digest of the pushed IMAGE to dist/, and the checksums of all its files
	$(BIN)/python -m tests.release.checksums dist $(IMAGE)

# The registry of the release workflow, for the chart and for the image of dist/install.yaml. USER_NAME and PASSWORD are its credentials.
export REGISTRY
push-chart: tools  #: Push the chart in dist/ to REGISTRY, as OCI, and write its digest to dist/
	@printf %s "$$PASSWORD" | .cache/e2e/bin/helm registry login $(firstword $(subst /, ,$(REGISTRY))) --username "$$USER_NAME" --password-stdin
	$(BIN)/python -m tests.release.chart dist $(REGISTRY)
