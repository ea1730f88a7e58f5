# Each target sets up what it needs: a virtual environment from the pinned lock.

PYTHON ?= python3.11
# Without byte code each of the thousands of processes that tests start compiles its modules anew.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-long test-engines test-gpu torture bench docs lint format lock clean template template-run

help:
	@echo "make demo       simulate a fleet, preprocess it, train on it with two workers (half a minute after the install)"
	@echo "make test       the tests, on all cores"
	@echo "make test-slow  the slow ones: killed workers, a bucket on this machine, wheels, pages that are run"
	@echo "make test-long  those that take minutes, and more cases of the slow ones: by hand, before a release"
	@echo "make test-engines  Flink, Spark, Prism, Slurm and Kubernetes (needs Java, Maven, Go, etcd, Slurm; root for several machines)"
	@echo "make test-gpu   on a machine with a GPU: against its processor, and how fast it is fed (writes docs/benchmarks.md)"
	@echo "make torture    thousands of broken fleets against an oracle, and four hundred kills (hours; goes on where it was stopped; writes docs/reliability.md)"
	@echo "make bench      ours against the alternatives, SIZE=small (about 45 minutes) or SIZE=large (writes docs/benchmarks.md)"
	@echo "make docs       the documentation as a site, with a page for every module, in out/docs (two minutes)"
	@echo "make template   build the Dataflow template: PROJECT=... REGION=... BUCKET=... (docs/dataflow.md)"
	@echo "make template-run  launch it: JOB=gs://... [SET='key=value; ...'] [JOB_NAME=...] with the same variables"
	@echo "make lint       ruff, mypy, import-linter"
	@echo "make format     let ruff rewrite the code"
	@echo "make lock       pin the newest versions that setup.py allows"
	@echo "make clean      remove what demo and tests wrote, not the environment"

setup: $(READY)

# The locks are whole, so nothing is left to resolve: a resolver would take the newest release of what extras name
# (google-auth[pyopenssl]), which has no hash here.
# Modules are compiled when they are first loaded: most never are, and pip compiles them one by one.
INSTALL := $(BIN)/pip install --quiet --no-compile --no-deps --require-hashes --requirement

$(READY): requirements-worker.lock requirements.lock requirements-dev.lock setup.py
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(READY)

# What the slow tests run against and what benchmarks compare with: as much again as half of the setup.
SLOW_READY := $(VENV)/.slow-ready

$(SLOW_READY): $(READY) requirements-slow.lock
	$(INSTALL) requirements-slow.lock
	touch $(SLOW_READY)

demo: $(READY)
	$(BIN)/python examples/make_fleet.py --out out/fleet
	$(BIN)/beamfeed run examples/fleet.yaml

# A file of tests at a time, by one process more than there are cores: many tests wait for what they started. Each process
# grows to some gigabytes.
PROCESSES := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SPREAD := --numprocesses $(PROCESSES) --maxprocesses 4 --dist loadfile

test: $(READY)
	$(BIN)/python -m pytest $(SPREAD) -m "not slow and not long and not engines"

# Files in an order that has short ones last: files of few tests come last otherwise, which are those of a minute each.
test-slow: $(SLOW_READY)
	$(BIN)/python -m pytest $(SPREAD) --no-loadscope-reorder -m "slow and not long" \
		$$(grep -rl --include="test_*.py" "mark\.slow" tests | sort -r)

# One at a time: most are of several processes that wait for each other.
test-long: $(SLOW_READY)
	$(BIN)/python -m pytest -m long

# What Maven and Go get into out/engines, a quarter of an hour the first time, and Slurm. What cannot be had is skipped,
# and why. ENGINES="tests/engines/test_slurm.py -k three_machines" runs a part.
ENGINES ?= tests/engines

test-engines: $(SLOW_READY)
	$(BIN)/python -m pytest -m engines $(ENGINES)

GPU_READY := $(VENV)/.gpu-ready

test-gpu: $(READY)
	@if command -v nvidia-smi >/dev/null; then $(MAKE) --no-print-directory on-gpu; \
		else echo "make test-gpu: skipped, as this machine has no GPU (there is no nvidia-smi)"; fi

.PHONY: on-gpu
on-gpu: $(GPU_READY)
	$(BIN)/python -m pytest tests/trainer/test_gpu.py
	$(BIN)/python benchmarks/gpu.py --docs docs

# CUDA weighs gigabytes, so it has a lock of its own.
$(GPU_READY): $(READY) requirements-gpu.lock
	$(INSTALL) requirements-gpu.lock
	touch $(GPU_READY)

FLEETS ?= 2000
JOBS ?= 2
KILLS ?= 100

torture: $(READY)
	$(BIN)/python -m tests.torture.run --fleets $(FLEETS) --jobs $(JOBS) --out out/torture.jsonl --docs docs/reliability.md
	$(BIN)/python -m tests.torture.kills --kills $(KILLS) --docs docs/reliability.md
	$(BIN)/python -m tests.torture.kills --grow --kills $(KILLS) --docs docs/reliability.md
	$(BIN)/python -m tests.torture.kills --compact --kills $(KILLS) --docs docs/reliability.md
	$(BIN)/python -m tests.torture.train_kills --kills $(KILLS) --docs docs/reliability.md

# BASE=<commit> also times that tree against this one, in turn, and prints the ratios. PARTS="tables train" measures
# these alone and keeps the others of an earlier run.
SIZE ?= small

bench: $(SLOW_READY)
	$(BIN)/python benchmarks/run.py --size $(SIZE) --out out/bench $(if $(filter large,$(SIZE)),--docs docs) $(if $(PARTS),--parts $(PARTS))
	$(if $(BASE),$(BIN)/python benchmarks/against.py --base $(BASE) --out out/bench/against.json)

# Every warning is an error, also a name in a docstring that is not found.
docs: $(READY)
	rm -rf out/docs out/doctrees
	$(BIN)/sphinx-build -q -n -W --keep-going -d out/doctrees docs out/docs
	@echo "out/docs/index.html"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The images and the Flex Template of preprocessing on Dataflow; see docs/dataflow.md.
GCLOUD ?= gcloud
REGION ?= $(shell $(GCLOUD) config get-value compute/region 2>/dev/null)
REPOSITORY ?= beamfeed
TAG ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo latest)
IMAGE ?= $(REGION)-docker.pkg.dev/$(PROJECT)/$(REPOSITORY)/preprocess:$(TAG)
WORKER_IMAGE ?= $(IMAGE)-worker
TEMPLATE ?= gs://$(BUCKET)/templates/preprocess.json

# $(call needs,VARIABLE,what it is): stops with one line where the variable is empty
needs = @test -n '$($(1))' || { echo "$(1) is not set: $(2), such as make $@ $(1)=..." >&2; exit 2; }

.PHONY: template-tools
template-tools:
	@command -v $(GCLOUD) >/dev/null || { echo "gcloud is not installed: https://cloud.google.com/sdk/docs/install" >&2; exit 2; }

template: template-tools
	$(call needs,PROJECT,the id of the Google Cloud project)
	$(call needs,REGION,where the image is kept and the jobs run)
	$(call needs,BUCKET,the bucket for the template)
	$(GCLOUD) builds submit . --project=$(PROJECT) --config=templates/cloudbuild.yaml \
		--substitutions=_IMAGE=$(IMAGE),_WORKER_IMAGE=$(WORKER_IMAGE)
	$(GCLOUD) dataflow flex-template build $(TEMPLATE) --project=$(PROJECT) --image=$(IMAGE) \
		--sdk-language=PYTHON --metadata-file=templates/preprocess.json

# Of the job file's path, as Dataflow runs a name once at a time.
JOB_NAME ?= beamfeed-$(shell printf '%s' '$(JOB) $(SET)' | sha256sum | cut -c1-12)

template-run: template-tools
	$(call needs,PROJECT,the id of the Google Cloud project)
	$(call needs,REGION,where the image is kept and the jobs run)
	$(call needs,BUCKET,the bucket for the template)
	$(call needs,JOB,the job file on gs://)
	$(GCLOUD) dataflow flex-template run $(JOB_NAME) --project=$(PROJECT) --region=$(REGION) \
		--template-file-gcs-location=$(TEMPLATE) --temp-location=gs://$(BUCKET)/tmp \
		--staging-location=gs://$(BUCKET)/staging --parameters='^~^job=$(JOB)$(if $(SET),~set=$(SET))'

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All extras are resolved together, so that a package has one version. A lock holds what its extras add to the lock that
# it requires, so that each package stands in one of them.
RESOLVE := $(BIN)/uv pip compile setup.py --python-version 3.11 --no-header --no-annotate --generate-hashes --quiet
LOCKS := out/locks

# $(call lock,NAME,EXTRAS,BELOW): NAME.lock, on BELOW.lock
define lock
$(RESOLVE) $(addprefix --extra ,$(2)) --constraint $(LOCKS)/all.lock --output-file $(LOCKS)/$(1).lock
{ echo '--requirement $(3).lock'; awk 'NR == FNR { below[$$1]; next } /^[^ ]/ { added = !($$1 in below) } added' \
	$(LOCKS)/$(3).lock $(LOCKS)/$(1).lock; } > $(1).lock
endef

lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	rm -rf $(LOCKS)
	mkdir -p $(LOCKS)
	$(RESOLVE) $(addprefix --extra ,all dev docs slow bench gpu) --output-file $(LOCKS)/all.lock
	$(RESOLVE) --extra worker --constraint $(LOCKS)/all.lock --output-file $(LOCKS)/requirements-worker.lock
	cp $(LOCKS)/requirements-worker.lock requirements-worker.lock
	$(call lock,requirements,all,requirements-worker)
	$(call lock,requirements-dev,all dev docs,requirements)
	$(call lock,requirements-slow,all dev docs slow bench,requirements-dev)
	$(call lock,requirements-gpu,all gpu,requirements)

clean:
	rm -rf out build dist docs/reference .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
