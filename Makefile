# Needs make, a POSIX shell, git for the tests, and Python 3.11 or newer, on Linux or macOS. Everything else goes into $(VENV), from the locks in requirements/.
#
#   PYTHON=python3.12   the Python that $(VENV) is made with
#   VENV=.venv          where it is made
#   TORCH=2.13.0        another release of torch than the pinned one
#   TORCH_INDEX=URL     the package index that torch comes from. On Linux the default index brings the CUDA build and several gigabytes
#                       of CUDA packages; TORCH_INDEX=https://download.pytorch.org/whl/cpu brings the CPU build.
#   PYTEST_ARGS=...     passed on to pytest, for example PYTEST_ARGS='-m "not slow"'
#   ENGINES="xgboost"   the engines that `make engines` and `make test-engines` mean; all by default
#   ENGINE_VENVS=.venv-engines   where each engine has an environment of its own
#   BENCH_VENV=.venv-bench       where the trainers that we compare ours with are installed
#   FAMILY=torch    the image that `make image` builds; docs/images.md has the families
#   BASE=local      its base: IMAGE@sha256:DIGEST, or local for one from Debian's packages where no registry can be reached
#   IMAGE=NAME:TAG  its name
#   IMAGE_ARGS=...  more for the build, for example IMAGE_ARGS="--build-arg DEVICE=cuda --archive build/image.tar"

ifeq ($(OS),Windows_NT)
  $(error Windows is not supported. Use Linux, macOS or the Windows Subsystem for Linux)
endif

ifneq ($(filter rehearse,$(MAKECMDGOALS)),)
  ifeq ($(RUN),)
    $(error Name a run, for example: make rehearse RUN=digits-ddp. The runs here: $(subst _,-,$(notdir $(basename $(wildcard charts/runs/*.yaml charts/runs/*.py)))))
  endif
endif

# Two at a time, these neighbours run together: ranks of DeepSpeed and of Horovod spin while they wait, so those two are none.
ALL_ENGINES := deepspeed ray horovod tensorflow xgboost adapters
ENGINES ?= $(ALL_ENGINES)
ifneq ($(filter-out $(ALL_ENGINES),$(ENGINES)),)
  $(error ENGINES names $(filter-out $(ALL_ENGINES),$(ENGINES)), which has no environment of its own. There are: $(ALL_ENGINES))
endif

# Images set it, and then each of thousands of processes would compile what it imports again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
TORCH ?= $(shell sed -n 's/^torch==//p' requirements/torch.txt)
TORCH_INDEX ?=
PYTEST_ARGS ?=
RUN ?=
ENGINE_VENVS ?= .venv-engines
BENCH_VENV ?= .venv-bench
FAMILY ?= torch
BASE ?=
IMAGE ?= localhost/trainwright-trainer-$(FAMILY):$(shell sed -n 's/^version = "\(.*\)"$$/\1/p' trainer/pyproject.toml)
IMAGE_ARGS ?=

# Those that start supervisors and ranks: longer than all others.
TESTS_OF_SUPERVISION := tests/trainer/supervisor
TESTS_OF_RUNS := $(addprefix tests/trainer/,commands test_manifests.py training)
# Those of the compiler that start programs: its command line on repositories, cdk8s, and what measures both packages.
TESTS_OF_COMMANDS := $(addprefix tests/compiler/,cdk8s cli project) tests/benchmarks
# Those of what comes after the YAML: a cluster, or a rehearsal of one.
TESTS_OF_CLUSTERS := $(addprefix tests/compiler/,live rehearsal)
# Those of what the compiler reads, checks and says.
TESTS_OF_RULES := $(addprefix tests/compiler/,policy program reading report review rules scenarios validate variables)
# Those that execute what is written: docs, the pages of findings, and manifests that others wrote.
TESTS_OF_PAGES := tests/docs tests/test_docs.py tests/compiler/findings tests/compiler/importing

BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# What each environment of `make rehearse-all` writes of its runs.
REHEARSED = $(patsubst %,$(abspath $(STAMPS))/rehearsed-%.xml,test-manifests $(ENGINES:%=test-engine-%))
# In the order in which they begin: the first waits more than it computes, the last are the shortest.
PARTS := $(addprefix test-,supervision trainer compiler runs commands clusters rules pages)
# Each part leaves the reasons of its skips, which `make test` counts at its end.
PYTEST = TRAINWRIGHT_SKIPS=$(abspath $(STAMPS))/skips-$@ $(BIN)/python -m pytest
PROJECTS := pyproject.toml trainer/pyproject.toml
# --no-deps: a lock is complete, so pip has nothing to resolve, and a gap in it shows in `pip check`.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# How many packages a lock has, and how long it takes; pip says nothing meanwhile.
PACKAGES = $$(grep -c '^[a-z].*==' $(filter requirements/%.txt,$^))
WAIT = About $(1) on a line of 10 MB/s, $(2) on one of 1 MB/s; pip is silent until it has ended.
INSTALL_LOCK := $(INSTALL) --require-hashes --no-deps --requirement
COMPILE := $(BIN)/uv --quiet --config-file requirements/uv.toml pip compile --universal --python-version 3.11 --generate-hashes \
  --custom-compile-command "make lock" --constraint requirements/torch.txt \
  --no-emit-package torch --no-emit-package trainwright-trainer $(if $(UPGRADE),--upgrade)
# xgboost is locked as xgboost-cpu, which does not bring NCCL; deepspeed and horovod are pinned as sdists, below requirements/engines.
COMPILE_ENGINE := $(COMPILE) trainer/pyproject.toml --group engines --constraint requirements/test.txt \
  $(patsubst %,--constraint %,$(wildcard requirements/engines/sdists/*.txt)) \
  --no-emit-package deepspeed --no-emit-package horovod --no-emit-package xgboost --no-emit-package nvidia-nccl-cu12

ENGINE_LOCKS := $(ALL_ENGINES:%=requirements/engines/%.txt)
# What an image has beyond the lock of its engine.
IMAGE_LOCKS := deepspeed-cuda nvml s3 sinks tensorflow-cuda xgboost-cuda

define CHECK_PYTHON
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "Python 3.11 or newer is needed, and $(PYTHON) is: $$($(PYTHON) --version 2>&1 || true)"; \
  echo "Name another one, for example: make PYTHON=python3.12"; exit 1; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help synth check rehearse rehearse-all wheels site crds image test-image test test-supervision test-runs test-commands test-clusters test-rules test-pages test-compiler test-trainer test-manifests lint fmt bench bench-train bench-gpu engines test-engines nightly lock clean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

synth: $(STAMPS)/synth ## Compile every run in charts/ into dist/ and say what changed
	$(BIN)/trainwright synth

check: $(STAMPS)/synth ## Fail when dist/ is stale, edited by hand, invalid or against policy
	$(BIN)/trainwright check

rehearse: $(STAMPS)/rehearse ## Run a run's YAML on this machine: make rehearse RUN=digits-ddp
	$(BIN)/trainwright rehearse $(RUN)

wheels: $(STAMPS)/synth ## Build both packages into build/wheels
	rm -rf build/wheels
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheels ./trainer .

site: $(STAMPS)/test ## Build the docs as a site into build/site, without the network
	$(BIN)/python tools/site.py

crds: $(STAMPS)/synth ## Fetch the operators' CRDs for `trainwright validate` into build/crds
	$(BIN)/trainwright crds

image: ## Build an image with buildah: make image FAMILY=torch, with BASE=local where no registry can be reached
	$(PYTHON) tools/images/build.py $(FAMILY) --tag $(IMAGE) $(if $(BASE),--base $(BASE)) \
	  $(if $(TORCH_INDEX),--build-arg TORCH_INDEX=$(TORCH_INDEX)) $(IMAGE_ARGS)

test-image: image $(if $(filter supervisor,$(FAMILY)),$(STAMPS)/test,$(STAMPS)/synth) ## Build that image and start pods of dist/ with it, as the kubelet would (root): the digits, or a script that brings the supervisor
	$(if $(filter supervisor,$(FAMILY)),SUPERVISOR=$(IMAGE) $(BIN)/python -m pytest tests/containers $(PYTEST_ARGS),\
	  $(BIN)/python -m tools.images.play dist/laptop/training/runs/digits-ddp.k8s.yaml $(IMAGE))

test: lint $(PARTS) ## ruff, mypy and all tests; --jobs=5 runs five at a time
	@cat $(PARTS:%=$(STAMPS)/skips-%) | sort | uniq -c | sort -rn | awk '{ count += $$1; lines = lines $$0 "\n" } \
	  END { print count ? "Not tested on this machine: " count " tests were skipped. How many, and why:" : "No test was skipped."; printf "%s", lines }'

test-supervision: $(STAMPS)/test
	$(PYTEST) $(TESTS_OF_SUPERVISION) $(PYTEST_ARGS)

test-runs: $(STAMPS)/test
	$(PYTEST) $(TESTS_OF_RUNS) $(PYTEST_ARGS)

test-commands: $(STAMPS)/test
	$(PYTEST) $(TESTS_OF_COMMANDS) $(PYTEST_ARGS)

test-clusters: $(STAMPS)/test
	$(PYTEST) $(TESTS_OF_CLUSTERS) $(PYTEST_ARGS)

test-rules: $(STAMPS)/test
	$(PYTEST) $(TESTS_OF_RULES) $(PYTEST_ARGS)

test-pages: $(STAMPS)/test
	$(PYTEST) $(TESTS_OF_PAGES) $(PYTEST_ARGS)

test-compiler: $(STAMPS)/test
	$(PYTEST) --ignore=tests/trainer $(patsubst %,--ignore=%,$(TESTS_OF_COMMANDS) $(TESTS_OF_CLUSTERS) $(TESTS_OF_RULES) $(TESTS_OF_PAGES)) $(PYTEST_ARGS)

test-trainer: $(STAMPS)/test
	$(PYTEST) tests/trainer $(patsubst %,--ignore=%,$(TESTS_OF_SUPERVISION) $(TESTS_OF_RUNS)) $(PYTEST_ARGS)

lint: $(STAMPS)/test ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/mypy

fmt: $(STAMPS)/test ## Sort imports and make ruff's safe fixes
	$(BIN)/ruff check --fix

bench: $(STAMPS)/test ## Measure us beside the alternative: start-up, and 1,000 runs (7 minutes); prints ratios, fails nothing else
	$(BIN)/python benchmarks/compile.py
	$(BIN)/python benchmarks/startup.py

bench-train: $(BENCH_VENV)/stamps/bench ## Measure training beside four other trainers, and what checkpoints cost (40 minutes)
	$(BENCH_VENV)/bin/python benchmarks/train.py
	$(BENCH_VENV)/bin/python benchmarks/checkpoint.py
	$(BENCH_VENV)/bin/python benchmarks/checkpoint_hash.py

bench-gpu: $(BENCH_VENV)/stamps/bench ## Measure training on one H100 or H200 beside three other trainers (10 minutes)
	$(BENCH_VENV)/bin/python benchmarks/gpu.py

engines: $(ENGINES:%=$(ENGINE_VENVS)/%/stamps/engine) ## Install DeepSpeed, Horovod, Ray, TensorFlow, XGBoost, and TRL and Lightning for our adapters, each by itself

rehearse-all: $(STAMPS)/test ## Rehearse every run in dist/ for a few steps, those of the engines in their environments, and say what did not play
	@rm -f $(REHEARSED)
	-@$(MAKE) --no-print-directory --keep-going test-manifests test-engines \
	  PYTEST_ARGS='-m rehearsal --junit-xml=$(abspath $(STAMPS))/rehearsed-$$@.xml $(PYTEST_ARGS)'
	@$(BIN)/python tools/rehearsed.py $(REHEARSED)

test-manifests: $(STAMPS)/test
	$(BIN)/python -m pytest tests/trainer/test_manifests.py tests/trainer/test_hugging_face.py $(PYTEST_ARGS)

nightly: $(STAMPS)/test ## Run the long tests that `make test` and `make test-engines` leave to the night, since a shorter one holds the same elsewhere
	$(PYTEST) -m nightly $(PYTEST_ARGS)
	$(MAKE) --no-print-directory --keep-going $(ENGINES:%=test-engine-%) PYTEST_ARGS='-m nightly $(PYTEST_ARGS)'

test-engines: $(ENGINES:%=test-engine-%) ## Test them and what we build on them; ENGINES="deepspeed xgboost" names some, --jobs=2 runs two at a time

lock: $(STAMPS)/lock ## Write the locks again after an edit of a pyproject.toml; UPGRADE=1 takes newer releases too
	$(COMPILE) pyproject.toml --group test trainer/pyproject.toml --extra torch --extra s3 --output-file requirements/test.txt
	$(COMPILE) pyproject.toml --group build trainer/pyproject.toml --extra torch --constraint requirements/test.txt --output-file requirements/rehearse.txt
	$(COMPILE) pyproject.toml --group build --constraint requirements/test.txt --output-file requirements/synth.txt
	$(COMPILE) trainer/pyproject.toml --extra torch --constraint requirements/test.txt --output-file requirements/trainer.txt
	$(COMPILE) trainer/pyproject.toml --constraint requirements/test.txt --output-file requirements/supervisor.txt
	$(COMPILE) --group build --constraint requirements/test.txt --output-file requirements/build.txt
	$(COMPILE) --group lock --output-file requirements/lock.txt
	$(COMPILE) trainer/pyproject.toml --extra torch --group bench --constraint requirements/test.txt --output-file requirements/bench.txt
	$(COMPILE_ENGINE) --extra torch --extra deepspeed --output-file requirements/engines/deepspeed.txt
	$(COMPILE_ENGINE) --extra torch --extra horovod --output-file requirements/engines/horovod.txt
	$(COMPILE_ENGINE) --extra torch --extra ray --group engine-ray --output-file requirements/engines/ray.txt
	$(COMPILE_ENGINE) --extra torch --group engine-adapters --output-file requirements/engines/adapters.txt
	$(COMPILE_ENGINE) --extra tensorflow --output-file requirements/engines/tensorflow.txt
	$(COMPILE_ENGINE) --extra xgboost --group engine-xgboost --output-file requirements/engines/xgboost.txt
	for name in $(IMAGE_LOCKS); do $(COMPILE) --constraint requirements/test.txt $(addprefix --constraint ,$(ENGINE_LOCKS)) \
	  requirements/images/$$name.in --output-file requirements/images/$$name.txt || exit; done

clean: ## Remove the virtual environments and the tools' caches
	rm -rf "$(VENV)" "$(ENGINE_VENVS)" "$(BENCH_VENV)" .mypy_cache .ruff_cache .pytest_cache .hypothesis

# What is installed so far. A stamp is older than a lock that changed, so the next make installs it.
$(STAMPS)/venv:
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv "$(VENV)"
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/synth: $(STAMPS)/venv requirements/synth.txt $(PROJECTS)
	@echo "Installing the compiler with cdk8s and the Node that it needs into $(VENV), once: $(PACKAGES) packages, 105 MB to fetch (Node is 61 of them), 440 MB of disk."
	@echo "$(call WAIT,30 s,3 minutes)"
	@$(INSTALL_LOCK) requirements/synth.txt
	$(INSTALL) --no-deps --no-build-isolation --editable ./trainer --editable .
	$(BIN)/python -m pip check
	@$(BIN)/python -m compileall -q constructs trainer/trainwright_trainer  # else each start compiles where Python may not write
	@touch $@

$(STAMPS)/rehearse: $(STAMPS)/synth $(STAMPS)/torch-$(TORCH)
	@touch $@

$(STAMPS)/torch-$(TORCH): requirements/rehearse.txt | $(STAMPS)/synth
	@echo "Installing torch $(TORCH) and what the trainer needs into $(VENV), once: 350 MB to fetch and 1 GB of disk with the CPU build, several GB with CUDA (TORCH_INDEX)."
	@echo "$(call WAIT,1 minute,7 minutes) With CUDA ten times as long."
	@$(INSTALL_LOCK) requirements/rehearse.txt
	@$(INSTALL) torch==$(TORCH) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@touch $@

$(STAMPS)/test: $(STAMPS)/rehearse requirements/test.txt
	@echo "Installing what the tests need into $(VENV), once: $(PACKAGES) packages with those that are there, 270 MB to fetch."
	@echo "$(call WAIT,1 minute,6 minutes)"
	@$(INSTALL_LOCK) requirements/test.txt
	$(BIN)/python -m pip check
	@touch $@

$(STAMPS)/lock: $(STAMPS)/venv requirements/lock.txt
	$(INSTALL_LOCK) requirements/lock.txt
	@touch $@

# The benchmarks' own environment: `make test` needs none of the other trainers.
BENCH_PIP := $(BENCH_VENV)/bin/python -m pip --quiet --disable-pip-version-check
$(BENCH_VENV)/stamps/bench: requirements/bench.txt requirements/torch.txt trainer/pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv "$(BENCH_VENV)"
	$(BENCH_PIP) install --require-hashes --no-deps --requirement requirements/bench.txt
	$(BENCH_PIP) install torch==$(TORCH) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BENCH_PIP) install --no-deps --no-build-isolation --editable ./trainer
	$(BENCH_PIP) check
	@mkdir -p $(@D)
	@touch $@

# The engines' own environments: what one of them pins would hold back the others, and `make test` needs none of them.
TORCH_ENGINES := deepspeed horovod ray adapters
BUILT_ENGINES := deepspeed horovod
ENGINE_PIP = $(@D:/stamps=)/bin/python -m pip --quiet --disable-pip-version-check
# The tests import a tenth of what is installed, and leave that compiled: to compile all of it takes twice as long.
ENGINE_INSTALL = $(ENGINE_PIP) install --no-compile

.PHONY: $(ENGINES:%=test-engine-%)
$(ENGINES:%=test-engine-%): test-engine-%: $(ENGINE_VENVS)/%/stamps/engine $(STAMPS)/synth
	TRAINWRIGHT_BIN="$(abspath $(BIN))" PATH="$(abspath $(ENGINE_VENVS)/$*/bin):$$PATH" $(ENGINE_VENVS)/$*/bin/python -m pytest tests/engines/$* $(PYTEST_ARGS)

.SECONDARY: # no stamp is thrown away as an intermediate file
$(ENGINE_VENVS)/%/stamps/venv:
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv "$(ENGINE_VENVS)/$*"
	@mkdir -p $(@D)
	@touch $@

$(ENGINE_VENVS)/%/stamps/lock: requirements/engines/%.txt $(ENGINE_VENVS)/%/stamps/venv
	$(ENGINE_INSTALL) --require-hashes --no-deps --requirement $<
	@touch $@

$(ENGINE_VENVS)/%/stamps/torch-$(TORCH): $(ENGINE_VENVS)/%/stamps/lock
	$(ENGINE_INSTALL) torch==$(TORCH) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@touch $@

$(ENGINE_VENVS)/%/stamps/wheel: requirements/engines/sdists/%.txt $(wildcard tools/engines/*.py tools/engines/*.patch) $(ENGINE_VENVS)/%/stamps/torch-$(TORCH)
	wheel=$$($(@D:/stamps=)/bin/python tools/engines/build.py $*) && $(ENGINE_INSTALL) --no-deps --force-reinstall "$$wheel"
	@touch $@

$(TORCH_ENGINES:%=$(ENGINE_VENVS)/%/stamps/engine): $(ENGINE_VENVS)/%/stamps/engine: $(ENGINE_VENVS)/%/stamps/torch-$(TORCH)
$(BUILT_ENGINES:%=$(ENGINE_VENVS)/%/stamps/engine): $(ENGINE_VENVS)/%/stamps/engine: $(ENGINE_VENVS)/%/stamps/wheel
$(ENGINE_VENVS)/%/stamps/engine: $(ENGINE_VENVS)/%/stamps/lock trainer/pyproject.toml
	$(ENGINE_INSTALL) --no-deps --no-build-isolation --editable ./trainer
	$(ENGINE_PIP) check
	@touch $@
