# Everything here works in a fresh clone with an empty environment; what is missing is installed or named.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help run test test-long chaos check bench fmt clean

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

check: ## Check format, lints, documentation, dependencies and licences
	@scripts/check

bench: ## Measure against the floors of this machine and write bench/RESULTS.md
	@bench/run

fmt: ## Format the code
	@cargo fmt

clean: ## Remove what was built and the embedded store of `make run`
	@cargo clean
	@rm -rf .mainspring
