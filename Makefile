# `make` alone lists what there is. Every target does its own set-up; the work is in tools/.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
BIN = $${CARGO_TARGET_DIR:-target}/debug

.PHONY: help dev test test-services test-lab lint fmt bench torture edit-time
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

dev: ## build and run the whole platform here, with one simulated node (ARGS="…" goes to gpuaas-dev run)
	@tools/setup.sh dev
	@cargo build --bins
	@exec $(BIN)/gpuaas-dev run $(ARGS)

test: ## format, lints, every test, and the check that nothing is left behind
	@tools/test.sh

test-services: ## the suites that need Python, Go, Java or a heavy SDK; what is missing is named, not failed
	@tools/test-services.sh

test-lab: ## the slow laboratory: VFIO on a real kernel, and a real slice whose executor is killed in every phase (minutes, as root)
	@tools/test-lab.sh

lint: ## format and lints only
	@tools/setup.sh lint
	@tools/lint.sh

fmt: ## format every crate
	@tools/setup.sh lint
	@tools/format.sh

bench: ## how fast and how small, with limits, into target/bench; all of it also into bench/results (BENCH="…" runs some)
	@tools/setup.sh dev
	@tools/bench.sh $(BENCH)

torture: ## 10,000 tasks under 5,000 kill -9 and 10 % lost messages; figures to target/bench/torture.json (ARGS="…" goes to gpuaas-dev torture)
	@tools/setup.sh dev
	@cargo build -p dev --bin gpuaas-dev
	@exec $(BIN)/gpuaas-dev torture --commit "$$(git rev-parse --short HEAD)" $(ARGS)

edit-time: ## CPU seconds from one edited line in a noun crate to a finished check
	@tools/setup.sh build
	@tools/edit-time.sh
