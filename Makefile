# Every target works on a fresh machine with Go, make and a package manager: what it needs it builds
# or installs, and says so; what it cannot have makes it fail.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The modules are those of the workspace.
MODULES := $(patsubst ./%,%,$(shell sed -n 's/^[[:space:]]*\(\.\/[^[:space:]]*\).*/\1/p' go.work))
DAEMONS := $(notdir $(filter services/%,$(MODULES)))

export PORTCULLIS_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/portcullis

# Tools are built from the modules that pin them, once per pinned state.
TOOLS := $(PORTCULLIS_CACHE)/tools/$(shell { go env GOVERSION; cat tools/*/go.mod tools/*/go.sum; } | sha256sum | cut -c1-16)
BUF := $(TOOLS)/buf
GOLANGCI := $(TOOLS)/golangci-lint
GOVULN := $(TOOLS)/govulncheck
PROTOC := $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git describe --always --abbrev=40 '--exclude=*' --dirty 2>/dev/null || echo unknown)
TELEMETRY := github.com/portcullis-mesh/portcullis/shared/telemetry
LDFLAGS := -s -w -X $(TELEMETRY).version=$(VERSION) -X $(TELEMETRY).commit=$(COMMIT)

CLUSTER := go run ./test/cluster/cmd/kube
# What needs a node, and so root: the first shares one, the second starts its own.
NODE := ./test/e2e/...
NODE_LIFE := ./test/cluster/nodelife
# Each supervisor is asked by a command once a second whether it is ready, which a node of two processors feels: eight tests at once are in
# each other's way, and take longer than four.
AT_ONCE := 4
# Packages of the test module that start nothing but themselves and read nothing outside it: Go's test cache knows all they depend on.
APART := $(addprefix ./test/,agentsandbox/api agentsandbox/reconcile apiproxy conformance/... mesh sim \
	$(addprefix cluster/internal/,filelock image process) \
	$(addprefix companions/,bearer bootstrap boundary exactjson gatewayside runtime supervisor) \
	$(addprefix gateway/,clock cmd/... control credentials driver phase record settings))
UNITS := $(addprefix ./,$(addsuffix /...,$(filter-out test,$(MODULES)))) $(APART)
# The longest come first, so that none of them is left for the end; go runs a package once that is listed twice.
LONGEST := $(addprefix ./test/,supervisor allowlist broker lifecycle tokenauth scenario acceptance)
SYSTEM = $(LONGEST) $(filter-out $(shell go list $(APART)),$(shell go list ./test/... | grep -v -e /test/e2e -e /test/cluster/nodelife))
# The cluster's kubeconfig is not for the tests: they find the cluster themselves. Nor is what one make tells another.
# `make check` vets all code, and nobody debugs a test binary of a run: leaving both away is a third of the time. Without the paths of this
# directory what was compiled for one clone serves the next, and Go's own linker has half the page faults that it has with the C compiler's.
RACE := -race -trimpath
LINKED := -ldflags='-s -w$(if $(filter amd64,$(shell go env GOARCH)), -linkmode=internal)'
GOTEST := env -u KUBECONFIG -u MAKEFLAGS -u MFLAGS -u MAKELEVEL go test $(RACE) -vet=off $(LINKED) -timeout 20m
LONG = $(GOTEST) $(UNCACHED) -timeout 90m -tags portcullis_long
# The schedules once more, by the thousand: the race detector leaves time for a few hundred. Then with each planted fault,
# which must be noticed, in the simulation and in the package's own schedules.
SIMULATION := go test -timeout 20m ./test/sim && go test -timeout 20m -tags portcullis_mutants -run 'TestPlantedFaults|SchedulesNotice' ./test/sim ./shared/allowlist
# A fifth of the processor time of a test binary goes to its garbage collector, and memory is there. Daemons start without this.
test test-units test-node test-long: export GOGC ?= 400
# A race of the last moment is reported by then; the detector's own second is spent by each of a hundred programs.
test test-units test-node test-long: export GORACE ?= atexit_sleep_ms=50
# Tests of the test module look at more than Go's test cache knows: the whole tree, built programs.
UNCACHED := -count=1

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The demo builds what it shows, with progress; itself it is built here. It goes by the variables KUBE, IMAGES and GATEWAY_HOST.
DEMO := $(PORTCULLIS_CACHE)/demo/demo
demo-program = @[ -x $(DEMO) ] || echo "building the demo (once)"; mkdir -p $(dir $(DEMO)); go build -buildvcs=false -o $(DEMO) ./test/demo/cmd/demo; exec $(DEMO)
export KUBE IMAGES GATEWAY_HOST DEMO_PREFIX

.PHONY: demo
demo: ## Show everything on a real cluster, check it, and clean up. KUBE=current uses the current kubeconfig.
	$(demo-program) run

.PHONY: up
up: ## Start a cluster with Portcullis and a sandbox in the background, and say how to look inside.
	$(demo-program) up

.PHONY: down
down: ## Remove what up has started, and what a demo that was killed has left.
	$(demo-program) down

.PHONY: build
build: ## Build the daemons into bin/.
	@for d in $(DAEMONS); do \
		echo "building bin/$$d"; \
		CGO_ENABLED=0 go build -C services/$$d -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/$$d ./cmd/$$d; \
	done

.PHONY: images
images: ## Build all images into bin/images: OCI archives with bills of materials, no container engine needed.
	go run ./test/images/cmd/images --version '$(VERSION)' --commit '$(COMMIT)'

# All is compiled first: beside a compiler a node has no time. The tests on a node wait for kubelets while the units compute, so both are
# run at once. What waits for clocks and votes has the machine to itself: its limits are those of the programs.
.PHONY: test
test: compiler ## Run every test: what needs no root, and, as root, what needs a real node.
	$(CLUSTER) build controlplane
	@if [ "$$(id -u)" = 0 ]; then $(CLUSTER) build node; fi
	@echo "compiling the tests"; go list $(RACE) -test -export -deps $(UNITS) ./test/... > /dev/null
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) --no-print-directory -j2 --output-sync=target test-units test-node; \
	else $(MAKE) --no-print-directory test-units; fi
	$(CLUSTER) run controlplane -- $(GOTEST) $(UNCACHED) $(SYSTEM)
	@if [ "$$(id -u)" != 0 ]; then echo "NOT RUN: test/e2e needs a real node, and that needs root. Run 'sudo make test-node' for it."; fi

.PHONY: test-units
test-units: compiler ## Run the tests that need nothing, with the simulations.
	$(GOTEST) $(UNITS)
	$(SIMULATION)

.PHONY: test-long
test-long: compiler ## Run the tests that take too long for make test: every write a crash point, fifty sandboxes at once, the whole demo (root); takes more than an hour.
	$(CLUSTER) build controlplane
	$(CLUSTER) run controlplane -- $(LONG) -run 'Crash|ManyAtOnce|Damage|Premises' -v ./test/supervisor
	$(CLUSTER) run controlplane -- $(LONG) -v ./test/lifecycle
	$(CLUSTER) run controlplane -- $(LONG) -skip OnANode -v ./test/demo/... ./test/images/... ./test/broker ./test/manual ./test/daemons
	@if [ "$$(id -u)" = 0 ]; then $(CLUSTER) build node; \
		$(CLUSTER) run node -- $(LONG) -run 'Demo|Shipped|Overlay' -v ./test/e2e; \
		$(CLUSTER) run node -- $(LONG) -run UpOnANode -v ./test/demo/cmd/demo; $(CLUSTER) down node; \
		$(LONG) -run RunOnANode -v ./test/demo/cmd/demo; \
	else echo "NOT RUN: the demo, the images and the overlay on a node need root."; fi

.PHONY: test-node
test-node: compiler ## Run the tests that need a real node (root).
	$(CLUSTER) build node
	$(CLUSTER) run node -- $(GOTEST) $(UNCACHED) -parallel $(AT_ONCE) $(NODE)
	$(CLUSTER) down node
	$(GOTEST) $(UNCACHED) $(NODE_LIFE)

.PHONY: check
check: verify lint ## Run everything that looks at the code without running it.

.PHONY: lint
lint: $(GOLANGCI) $(BUF) ## Check format and style of Go and proto files.
	@for m in $(MODULES) test/cluster/binaries/etcd test/cluster/binaries/coredns test/deploy/promql; do \
		echo "lint $$m"; \
		work=$$(case $$m in test/cluster/binaries/*|test/deploy/promql) echo off;; esac); \
		(cd $$m && GOWORK=$$work $(GOLANGCI) fmt --diff ./... && GOWORK=$$work $(GOLANGCI) run --allow-parallel-runners ./...); \
	done
	cd proto && $(BUF) lint && $(BUF) format --diff --exit-code

.PHONY: verify
verify: $(BUF) $(PROTOC) ## Check that what is generated or pinned is current and that each module builds alone.
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
		cp -r proto "$$scratch"; \
		(cd "$$scratch/proto" && find . \( -name '*.pb.go' \) -delete && PATH="$(TOOLS):$$PATH" $(BUF) generate); \
		diff -r proto "$$scratch/proto" || { echo "generated code is stale: run 'make generate' and commit"; exit 1; }
	cd proto && $(BUF) breaking --against testdata/contract.binpb
	@for m in $(MODULES); do \
		echo "verify $$m alone"; \
		(cd $$m && export GOWORK=off && go mod tidy -diff && go build ./... && go vet -tags portcullis_long ./...); \
	done
	@for m in tools/*/ test/cluster/binaries/*/ test/deploy/crds test/deploy/promql test/broker/natscli test/images/oras; do (cd $$m && GOWORK=off go mod tidy -diff); done

.PHONY: vuln
vuln: $(GOVULN) ## Look every module up in Go's vulnerability database, or in the copy that GOVULNDB names.
	@found=; for m in $(MODULES); do echo "vuln $$m"; status=0; \
		(cd $$m && GOWORK=off $(GOVULN) $${GOVULNDB:+-db $$GOVULNDB} ./...) || status=$$?; \
		case $$status in 0) ;; 3) found=1 ;; *) echo "vuln: $$m was not looked up: vuln.go.dev must be reachable, or GOVULNDB name a copy of it"; exit 1 ;; esac; \
	done; [ -z "$$found" ]

.PHONY: generate
generate: $(BUF) $(PROTOC) ## Generate the Go code of the proto files.
	cd proto && PATH="$(TOOLS):$$PATH" $(BUF) generate

.PHONY: tidy
tidy: ## Tidy every module, each for itself.
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy); done

.PHONY: fuzz
FUZZTIME ?= 20s
fuzz: ## Run every fuzz target for FUZZTIME (20s).
	@grep -rlE '^func Fuzz' --include='*_test.go' $(MODULES) | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go | cut -c6-); do \
			echo "fuzz ./$$dir $$target"; \
			go test -race -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$dir; \
		done; \
	done

.PHONY: bench-allowlist
bench-allowlist: ## Measure the allowlist, from the label to the answer; prints tables, takes about five minutes.
	$(CLUSTER) build controlplane
	$(CLUSTER) run controlplane -- env -u KUBECONFIG go test -run '^$$' -bench 'Allowlist|LeaderKilled' -benchtime 1x -timeout 60m ./test/bench
	go test -run '^$$' -bench 'Check' -benchmem ./shared/allowlist ./shared/allowkv

.PHONY: bench-tokenauth
bench-tokenauth: ## Measure token authentication beside bare API calls; prints tables, takes about five minutes.
	$(CLUSTER) build controlplane
	$(CLUSTER) run controlplane -- env -u KUBECONFIG go test -run '^$$' -bench Tokenauth -benchtime 1x -timeout 60m ./test/bench

.PHONY: bench-supervisorctl
bench-supervisorctl: ## Measure supervisorctl beside a bare client, and at rest; prints tables, takes about half an hour.
	$(CLUSTER) build controlplane
	$(CLUSTER) run controlplane -- env -u KUBECONFIG go test -run '^$$' -bench Supervisorctl -benchtime 1x -timeout 90m ./test/bench

.PHONY: bench-lifecycle
bench-lifecycle: ## Measure lifecycle beside a bare client, and with 5 000 sandboxes; prints tables, takes about ten minutes.
	$(CLUSTER) build controlplane
	$(CLUSTER) run controlplane -- env -u KUBECONFIG go test -run '^$$' -bench Lifecycle -benchtime 1x -timeout 60m ./test/bench

.PHONY: bench-mesh
bench-mesh: ## Measure the relay, NATS and its audit stream; prints tables, takes about fifteen minutes.
	go test -run '^$$' -bench 'Relay|NATS|Audit' -benchtime 1x -timeout 30m ./test/bench

.PHONY: clean
clean: ## Stop the test clusters and remove what was built here; caches stay.
	$(CLUSTER) down controlplane
	@if [ "$$(id -u)" = 0 ]; then $(CLUSTER) down node; fi
	rm -rf bin

# The race detector links with the C compiler.
.PHONY: compiler
compiler:
	@if ! command -v "$$(go env CC)" >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing gcc (the race detector needs a C compiler)"; \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends gcc libc6-dev; \
		else echo "the race detector needs a C compiler: install gcc"; exit 1; fi; \
	fi

build-tool = @echo "building $(notdir $@) (once)"; mkdir -p $(TOOLS); cd tools/$(1) && CGO_ENABLED=0 GOWORK=off GOFLAGS= go build -trimpath -o $@ $(2)

$(BUF):
	$(call build-tool,buf,github.com/bufbuild/buf/cmd/buf)
$(GOLANGCI):
	$(call build-tool,golangci,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(TOOLS)/protoc-gen-go:
	$(call build-tool,protoc,google.golang.org/protobuf/cmd/protoc-gen-go)
$(TOOLS)/protoc-gen-go-grpc:
	$(call build-tool,protoc,google.golang.org/grpc/cmd/protoc-gen-go-grpc)
$(GOVULN):
	$(call build-tool,vuln,golang.org/x/vuln/cmd/govulncheck)
