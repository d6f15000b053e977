# Everything here works in a fresh clone with an empty environment; what is missing is installed or named.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help run ui ui-dev ui-test bench-ui test test-long chaos chaos-cluster check bench fmt clean

help: ## Show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: ## Build the release binary and serve with an embedded store in .mainspring/
	@scripts/run

test: ## Run every test but the long ones, with a throwaway PostgreSQL
	@scripts/postgres with --fast -- scripts/test

test-long: ## Run the long tests, with a throwaway PostgreSQL
	@scripts/postgres with --fast -- scripts/test long

chaos: ## Run the fault tests at full length, with a throwaway PostgreSQL
	@scripts/postgres with --fast -- scripts/test chaos

chaos-cluster: ## Three servers, four remote workers, PostgreSQL, etcd and Redis under faults: MINUTES=5 SEED=any
	@MAINSPRING_TEST_MINUTES=$(MINUTES) MAINSPRING_TEST_SEED=$(SEED) scripts/postgres with --fast -- scripts/test chaos-cluster

check: ## Check format, lints, documentation, dependencies and licences
	@scripts/check

ui: ## Build the web interface into ui/dist
	@scripts/ui build

ui-dev: ## Serve the web interface with reload, against the server of MAINSPRING_SERVER (http://127.0.0.1:8080)
	@scripts/ui dev

ui-test: ## Check the web interface and walk through it in chromium, on both databases
	@scripts/ui check
	@scripts/postgres with --fast -- scripts/ui-test

bench-ui: ## Measure the web interface against its numbers
	@scripts/postgres with --fast -- scripts/ui-bench

bench: ## Measure against the floors of this machine and write bench/RESULTS.md
	@bench/run

fmt: ## Format the code
	@cargo fmt

clean: ## Remove what was built and the embedded store of `make run`
	@cargo clean
	@rm -rf .mainspring
