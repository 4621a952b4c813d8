# Sets up, measures, tests. `make` alone says what there is.
#
#   make bench                        set up what is missing, measure, render a report
#   make bench VENV=                  the same with the Python at hand, which already holds torch; installs nothing
#   make bench FULL=1 | BUDGET=30m | MODEL=llama-3-8b | SEQ=1024,4096 | PROFILE=quick | DEVICE=cpu | SUITES=suites/attention.yaml

.ONESHELL:
SHELL := /bin/sh
# What is called by a job stays silent, also where make calls make.
MAKEFLAGS += --no-print-directory
.SHELLFLAGS := -euc
.DEFAULT_GOAL := help
.PHONY: help nightly bench env env-dev test check report clean soak flash-attn plan

VENV ?= .venv
TORCH := torch==2.13.0
# Where torch comes from, if not from pip's usual index: https://download.pytorch.org/whl/cpu has builds for CPUs, a tenth of the size.
TORCH_INDEX ?=

# Technique packages that the suites use today, one by one and prebuilt only: a failure is listed and stops nothing. deepspeed has no
# wheel; its source compiles nothing until an engine asks for one of its operators.
TECHNIQUES := liger-kernel==0.8.5 bitsandbytes==0.50.2 torchao==0.18.0 transformers==5.17.0 deepspeed==0.19.8
TECHNIQUES_GPU := flash-attn-4==4.0.0b36
FLASH_ATTN := flash-attn==2.8.3.post2

GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | head -n 1 | sed 's/ .UUID.*//')

FULL ?=
PROFILE ?= $(if $(FULL),,$(if $(and $(GPU),$(filter-out cpu,$(DEVICE))),quick,cpu))
BUDGET ?= $(if $(FULL),,$(if $(filter cpu,$(PROFILE)),6m,18m))
DEVICE ?= auto
MODEL ?=
SEQ ?=
ifndef REPORT
REPORT := reports/bench-$(shell date +%Y%m%d-%H%M%S).html
endif
# The published pages, each with its suites; a page is made of those of them that a device has results of. Results and pages together may
# take 3 MiB, and a page one.
EXAMPLES ?= attention:attention,attention_masks,attention_dropout,attention_claims,saved_attention \
    layers:rms_norm,layer_norm,fused_add_rms_norm,rope,swiglu,geglu,cross_entropy,linear_cross_entropy,embedding,divergence_loss,distillation_loss,preference_loss \
    formats:quantization,float8_training,matmul,optimizer,offload \
    training:train_step,llama8b,llama8b_context,checkpointing,precision,qat,ptq_vs_qat,compat \
    sharding:zero,zero_vs_fsdp,offload_step,largest_model,collectives
PUBLISHED ?= results/published
PAGES ?= reports/published
# Pages that hold the tables of `bench guide`, of the rows that this repository publishes.
GUIDES ?= $(if $(filter results/published,$(PUBLISHED)),README.md README.zh-TW.md)
PYTEST_ARGS ?=
SPEED ?=

# The most useful answer first; last those whose first block alone takes minutes, since a block that has begun is measured to its end.
FIRST := suites/attention.yaml
LAST := suites/compat.yaml suites/largest_model.yaml suites/offload_step.yaml suites/ptq_vs_qat.yaml suites/zero.yaml suites/zero_vs_fsdp.yaml
ALL_SUITES := $(wildcard $(FIRST)) $(filter-out $(FIRST) $(LAST),$(sort $(wildcard suites/*.yaml))) $(wildcard $(LAST))
# Of these suites those that say this word, where it was asked for: a profile, or an axis that MODEL or SEQ narrows down.
having = $(if $(1),$(shell grep -lE '^  $(2):' $(3) /dev/null),$(3))
SUITES ?= $(call having,$(SEQ),seq_len,$(call having,$(MODEL),model,$(call having,$(PROFILE),$(PROFILE),$(ALL_SUITES))))

ifeq ($(strip $(VENV)),)
PYTHON := $(shell command -v python3 || command -v python)
READY :=
READY_DEV :=
else
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
endif

PIP := $(PYTHON) -m pip install --disable-pip-version-check --quiet

help:
	@cat <<'TEXT'
	make bench        set up, measure (GPU: 20 minutes, CPU: 10), render a report; Ctrl-C still leaves one
	make report       render the published examples again, and the latest run
	make nightly      measure a night and judge it: silent where nothing is worse (nightly/ has it for cron and Slurm)
	make test         all tests but the soak           make check   lint, format, types, layers
	make soak         the long robustness runs         make speed   bench's own speed, into the database
	make clean        caches and rendered reports; results stay
	make flash-attn   build FlashAttention-2 (long: it says how long first)
	Variables: VENV= FULL=1 BUDGET=20m PROFILE= DEVICE= MODEL= SEQ= SUITES= TORCH_INDEX=; see the top of the Makefile.
	TEXT

# -- the environment ---------------------------------------------------------------------------------------------------------

# A name on the PATH is not yet a Python: version managers leave stubs there, and Debian splits venv off.
define FIND_PYTHON
for candidate in python3.11 python3.12 python3.13 python3 python; do
    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        base=$$candidate; break
    fi
done
if [ -z "$${base:-}" ]; then
    echo "There is no Python 3.11 or newer with its venv module here." >&2
    echo "Install one (Debian: apt-get install python3 python3-venv), or use a Python that already holds torch: make bench VENV=" >&2
    exit 2
fi
endef

# An environment runs the code of one folder: a second clone would turn it over to itself without a word.
define OWN_ENVIRONMENT
if [ -x $(PYTHON) ]; then
    other=$$($(PYTHON) -P -c 'import json, os; from importlib.metadata import distribution; from urllib.parse import urlsplit; from urllib.request import url2pathname; folder = url2pathname(urlsplit(json.loads(distribution("stepbench").read_text("direct_url.json"))["url"]).path); print("" if os.path.realpath(folder) == os.getcwd() or not os.path.isdir(folder) else folder)' 2>/dev/null || true)
    if [ -n "$$other" ]; then
        echo "$(VENV) runs stepbench from $$other, and installing here would turn it over to this folder." >&2
        echo "Leave VENV out for an environment of this folder's own, or use that one's packages as they are: make ... VENV= PYTHON=$(PYTHON)" >&2
        exit 2
    fi
fi
endef

env: $(READY)

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(FIND_PYTHON)
	$(OWN_ENVIRONMENT)
	echo "setting up $(VENV) with $$base ($$($$base --version))"
	[ -x $(PYTHON) ] || $$base -m venv $(VENV)
	# torch first and alone: the others then take the build that is there, and a build for CPUs stays one.
	echo "  $(TORCH)"
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	echo "  the packages of pyproject.toml"
	$(PIP) -c constraints.txt numpy
	$(PIP) -c constraints.txt -e .
	: > $(VENV)/techniques.txt
	for package in $(TECHNIQUES) $(if $(GPU),$(TECHNIQUES_GPU)); do
	    if $(PIP) --only-binary=:all: --no-binary=deepspeed -c constraints.txt "$$package" 2> $(VENV)/pip-error.txt; then
	        echo "$$package installed" >> $(VENV)/techniques.txt
	    else
	        echo "$$package NOT installed: $$(grep -m 1 ERROR $(VENV)/pip-error.txt || tail -n 1 $(VENV)/pip-error.txt)" >> $(VENV)/techniques.txt
	    fi
	done
	sed 's/^/  /' $(VENV)/techniques.txt
	touch $@

env-dev: $(READY_DEV)

$(VENV)/.ready-dev: $(VENV)/.ready
	@$(OWN_ENVIRONMENT)
	$(PIP) -c constraints.txt -e '.[dev,postgresql]'
	touch $@

# -- measuring ---------------------------------------------------------------------------------------------------------------

plan:
	@echo "device:    $(or $(GPU),no NVIDIA GPU: the CPU)$(if $(filter cpu,$(DEVICE)),; DEVICE=cpu was asked for)"
	echo "measures:  $(or $(SUITES),nothing)"
	echo "           $(if $(PROFILE),profile $(PROFILE),everything)$(if $(BUDGET),; at most $(BUDGET); then a report)"
	if [ -z "$(strip $(VENV))" ]; then
	    echo "set-up:    none; uses $(PYTHON) as it is"
	elif [ $(VENV)/.ready -nt constraints.txt ] && [ $(VENV)/.ready -nt pyproject.toml ]; then
	    echo "set-up:    none; $(VENV) is ready and nothing is downloaded"
	else
	    echo "set-up:    a new environment in $(VENV), 1 to 3 minutes"
	    echo "downloads: about 3 GB with torch's CUDA build, 0.7 GB with a build for CPUs (TORCH_INDEX=https://download.pytorch.org/whl/cpu)"
	fi
	echo "report:    $(REPORT)   (Ctrl-C stops the measuring and still leaves it)"

bench: plan $(READY)
	@if [ -z "$(SUITES)" ]; then echo "no suite has a profile $(PROFILE)" >&2; exit 2; fi
	exec $(PYTHON) -m bench run $(SUITES) $(if $(PROFILE),--profile $(PROFILE)) $(if $(BUDGET),--budget $(BUDGET)) --device $(DEVICE) \
	    $(if $(MODEL),--set model=$(MODEL)) $(if $(SEQ),--set seq_len=$(SEQ)) --report $(REPORT)

# The same results give the same bytes, so that a page that nothing changed in is no difference to commit.
report: $(READY)
	@for folder in $(PUBLISHED)/*/; do
	    for example in $(EXAMPLES); do
	        page=$(PAGES)/$$(basename "$$folder")-$${example%%:*}.html
	        sources=
	        for suite in $$(echo "$${example#*:}" | tr , ' '); do
	            if [ -e "$$folder$$suite.jsonl.xz" ]; then sources="$$sources --from-file $$folder$$suite.jsonl.xz"; fi
	        done
	        if [ -z "$$sources" ]; then continue; fi
	        $(PYTHON) -m bench report --light $$sources -o "$$page"
	        if [ "$$(wc -c < "$$page")" -gt 1048576 ]; then echo "$$page is larger than 1 MiB: a repository must travel light" >&2; exit 2; fi
	    done
	done
	# 1: some claims are not reproduced; 3: no row here speaks of any.
	said=0; $(PYTHON) -m bench claims --published $(PUBLISHED) --format html -o $(PAGES)/claims.html || said=$$?
	case $$said in 0|1|3) ;; *) exit $$said ;; esac
	if [ -n "$(GUIDES)" ]; then $(PYTHON) -m bench guide --published $(PUBLISHED) $(GUIDES:%=--write %); fi
	bytes=$$(find $(PUBLISHED) $(PAGES) -type f -exec cat {} + | wc -c)
	if [ "$$bytes" -gt 3145728 ]; then echo "$(PUBLISHED) and $(PAGES) hold $$bytes bytes, above 3 MiB: leave a page out (EXAMPLES=...)" >&2; exit 2; fi
	if [ -e results/bench.db ] || [ -n "$${BENCH_DB:-}" ]; then $(PYTHON) -m bench report; fi

# One night; nightly/night.sh says what may be set. make itself only knows 0 and 2, so a job that asks for more calls that script.
# SPEED=1 measures bench itself before it.
nightly: $(READY) $(if $(SPEED),speed)
	@SUITES="$(SUITES)" PROFILE="$(PROFILE)" BUDGET="$(if $(FULL),,$(BUDGET))" DEVICE="$(DEVICE)" BENCH="$(PYTHON) -m bench" nightly/night.sh

# -- keeping it right --------------------------------------------------------------------------------------------------------

# Several tests at a time: each process has locks, caches and servers of its own, and takes neighbours, which share what is costly.
test: $(READY_DEV)
	@exec $(PYTHON) -m pytest --numprocesses auto --dist worksteal $(PYTEST_ARGS)

soak: $(READY_DEV)
	@exec $(PYTHON) -m pytest -m soak --timeout 0 $(PYTEST_ARGS)

# bench's own speed (expansion, ingest, compare, report, plan), into the database that every command reads: `bench history` has it then.
.PHONY: speed
speed: $(READY_DEV)
	@mkdir -p .benchmarks
	$(PYTHON) -m pytest --numprocesses 0 --quiet tests/benchmarks/bench_*.py --benchmark-json .benchmarks/speed.json
	$(PYTHON) -m bench db import .benchmarks/speed.json

check: $(READY_DEV)
	@$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

clean:
	@find . -path './.venv' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find reports -maxdepth 1 -type f -delete 2>/dev/null || true

# -- FlashAttention-2 is published as source alone ------------------------------------------------------------------------------

flash-attn: $(READY)
	@jobs=$$(awk '/MemAvailable/ { n = int($$2 / 1048576 / 9); print (n < 1 ? 1 : n) }' /proc/meminfo); cores=$$(nproc)
	[ "$$jobs" -le "$$cores" ] || jobs=$$cores
	echo "building $(FLASH_ATTN): $$jobs compilers at a time, up to 9 GB of memory each; about $$((180 / jobs + 10)) minutes for one GPU generation"
	if ! command -v nvcc >/dev/null 2>&1; then echo "nvcc is missing: install the CUDA toolkit that torch was built with first" >&2; exit 2; fi
	arch=$$($(PYTHON) -c 'import torch; print("".join(map(str, torch.cuda.get_device_capability())) if torch.cuda.is_available() else "")')
	if [ -z "$$arch" ]; then echo "torch sees no GPU here, so there is nothing to build for" >&2; exit 2; fi
	$(PIP) -c constraints.txt setuptools wheel ninja packaging psutil
	MAX_JOBS=$$jobs FLASH_ATTN_CUDA_ARCHS=$$arch $(PIP) --no-build-isolation --no-deps '$(FLASH_ATTN)' einops
	$(PYTHON) -c 'import flash_attn; print("flash-attn", flash_attn.__version__, "is installed")'
