# The commands people and CI run; CMake does the building.
#
# `make demo` and `make test` need nothing but git, make and a shell on Debian 12: they install the packages that are
# missing (as root, or through sudo). Anything a target does beyond one or two commands stands in scripts/.

BUILD := build
# Compilers of a gRPC client take about 1 GiB each; one job a core suits machines with 2 GiB a core.
JOBS ?= $(shell nproc)

.PHONY: all setup build demo test bench format clean help

all: build

help: ## lists the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: ## installs the missing Debian packages that a build needs
	@scripts/setup.sh build

build: setup ## builds build/zerofleet and the unit tests, release
	@scripts/build.sh $(BUILD) $(JOBS)

demo: ## trains a small GPT on a real book for about 3 minutes with two workers, then lets it write
	@scripts/setup.sh build demo
	@scripts/build.sh $(BUILD) $(JOBS) zerofleet
	@scripts/demo.sh $(BUILD)/zerofleet

test: ## runs every test: unit, sanitizers, fuzz targets, integration
	@scripts/setup.sh build test
	@tests/run_all.sh $(JOBS)

bench: build ## times one training step of GPT-2 124M, with the GEMM peak beside it
	$(BUILD)/zerofleet bench step

format: ## formats the C++ sources in place
	@scripts/setup.sh format
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

clean: ## removes everything that was built
	rm -rf $(BUILD) build-asan build-tsan demo-run
