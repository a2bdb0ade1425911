# The commands people and CI run; CMake does the building.
#
# `make demo` and `make test` need nothing but git, make and a shell on Debian 12: they install the packages that are
# missing (as root, or through sudo). Anything longer than one or two commands is in scripts/.

BUILD := build
# Compilers of a gRPC client take about 1 GiB each; one job per core suits machines with 2 GiB per core.
JOBS ?= $(shell nproc)

.PHONY: all setup build demo check test test-torch wheel test-kubernetes test-alerts gpu-rehearsal mutants chaos chaos-kill-points bench image lint docs format clean help

all: build

help: ## lists the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## installs the missing Debian packages that a build needs
	@scripts/setup.sh build

build: setup ## builds build/zerofleet and the unit tests, release
	@scripts/build.sh $(BUILD) $(JOBS) -DZEROFLEET_TESTS_ONCE=OFF

demo: ## trains a small GPT on a real book for about 3 minutes with two workers, then lets it write
	@scripts/setup.sh build demo
	@scripts/build.sh $(BUILD) $(JOBS) zerofleet
	@scripts/demo.sh $(BUILD)/zerofleet

check: build ## builds and runs the release unit tests: the loop while editing
	@ctest --test-dir $(BUILD) -L 'unit|house' -j $$(($(JOBS) + 1)) --output-on-failure  # one more: some tests wait

test: ## runs every test: unit, sanitizers, fuzz targets, integration
	@scripts/setup.sh build test
	@tests/run_all.sh $(JOBS)

TORCH := $(BUILD)/torch
test-torch: ## tests the Python package with PyTorch, which it installs from PyPI into build/torch: some gigabytes, 20 minutes
	@scripts/setup.sh build
	@python/test.sh $(TORCH) $(JOBS)

WHEEL_TOOLS := $(BUILD)/wheel-tools
wheel: ## builds the Python package as a wheel that carries its libraries, in build/wheel
	@scripts/setup.sh build
	@python/wheel.sh $(WHEEL_TOOLS) $(JOBS) $(BUILD)/wheel

test-kubernetes: ## validates the chart, installs it into a real API server, trains on two nodes; 45 minutes the first time
	@scripts/setup.sh build kubernetes
	@scripts/build.sh $(BUILD) $(JOBS) zerofleet
	@tests/kubernetes/chart_check.py --strict
	@tests/kubernetes/api_check.py
	@ZEROFLEET=$(BUILD)/zerofleet tests/kubernetes/pods_check.py || [ $$? -eq 77 ]
	@ZEROFLEET=$(BUILD)/zerofleet tests/kubernetes/controllers_check.py || [ $$? -eq 77 ]

test-alerts: ## does to a fleet what each alert is for, under a real Prometheus; some minutes
	@scripts/setup.sh build test
	@scripts/build.sh $(BUILD) $(JOBS) zerofleet bad_disk
	@ZEROFLEET=$(BUILD)/zerofleet tests/integration/alerts_fire.py

gpu-rehearsal: ## every step of bench/gpu_suite.sh, small, on emulated GPUs: none of them may fail; some 10 minutes
	@scripts/setup.sh build cuda
	@bench/gpu_rehearsal.sh $(JOBS)

mutants: ## expects each of the faults in tests/mutants to turn a test red; ROOM=name for one room's
	@scripts/setup.sh build
	@tests/mutants/run.py --jobs $(JOBS) $(if $(ROOM),--room $(ROOM))

SEED ?= 1
ROUNDS ?= 100
chaos: build ## faults on the processes, network and disk of real runs from a seed: SEED=1 ROUNDS=100
	@ZEROFLEET=$(BUILD)/zerofleet tests/chaos/run.py --seed $(SEED) --rounds $(ROUNDS)

RUNS ?= 1
chaos-kill-points: setup ## kills a process of a small fleet at each named point of the sources: RUNS=1
	@scripts/build.sh build-kill-points $(JOBS) -DZEROFLEET_KILL_POINTS=ON zerofleet
	@ZEROFLEET=build-kill-points/zerofleet tests/chaos/kill_points.py --runs $(RUNS)

bench: build ## times one training step of GPT-2 124M and shows the GEMM peak next to it
	$(BUILD)/zerofleet bench step

image: ## builds the container image with docker, podman or buildah; DEVICE=cuda, TARGET=debug, BASE=debootstrap
	@DEVICE='$(DEVICE)' TARGET='$(TARGET)' BASE='$(BASE)' IMAGE='$(IMAGE)' JOBS='$(JOBS)' scripts/image.sh

lint: ## checks formatting, clang-tidy's rules, scripts, YAML and links
	@scripts/setup.sh build lint
	@scripts/lint.py --jobs $(JOBS)

docs: ## builds the documentation site and the API reference in build/docs/site
	@scripts/setup.sh docs
	@scripts/docs.py

format: ## formats the C++ sources in place
	@scripts/setup.sh lint
	@git ls-files '*.cc' '*.h' '*.cu' '*.cuh' '*.inc' | xargs clang-format-14 -i

clean: ## removes everything that was built
	rm -rf $(BUILD) build-asan build-tsan demo-run
