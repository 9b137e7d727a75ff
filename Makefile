SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
IDS ?= 5000000
TESTFLAGS ?=
BENCHFLAGS ?=

.PHONY: help test quick race bench lint examples fuzz model model-full sim cover ci

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Run all tests on all servers, setting up what they need (TESTFLAGS='-run X')
	@scripts/test $(TESTFLAGS)

quick: ## Run what needs no server, in under a minute once it is built
	@GORMFLAKE_NO_SERVERS=1 GORMFLAKE_ROOT_MODULE=1 scripts/test -short $(TESTFLAGS)

race: ## Run all tests on all servers with the race detector
	@scripts/test -race -p 2 $(TESTFLAGS)

bench: ## Compare with the peers and with the floor, as ratios (BENCHFLAGS='...')
	@cd benchmarks && go run . $(BENCHFLAGS)

lint: ## Check format, go vet, staticcheck, and golangci-lint if it is installed
	@files=$$(find . -name '*.go' -not -path './.*/*' -print0 | xargs -0 gofmt -l); \
	if [ -n "$$files" ]; then echo "not formatted by gofmt:"; echo "$$files"; exit 1; fi
	@go vet ./...
	@go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; fi

examples: ## Run every example with its default arguments
	@scripts/examples

fuzz: ## Run every fuzz target (FUZZTIME=20 seconds each)
	@scripts/fuzz

model: ## Check the lease protocol's Promela model with small bounds
	@scripts/model

model-full: ## Check it with the larger bounds (minutes, gigabytes)
	@scripts/model full

sim: ## Simulate a fleet on a fresh seed (SEED=1 IDS=5000000)
	@echo "seed $(SEED)"
	@go run ./internal/simulation/cmd -seed $(SEED) -ids $(IDS)

cover: ## Run all tests and show how much of each package they cover
	@GORMFLAKE_ROOT_MODULE=1 scripts/test -coverpkg=./... -coverprofile=$(CURDIR)/cover.out $(TESTFLAGS)
	@go tool cover -func=cover.out | tail -n 1
	@echo "by line: go tool cover -html=cover.out"

ci: ## Do what continuous integration does
	@bash .ci/run
