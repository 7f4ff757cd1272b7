# Token Factory. `make` alone says what there is.
.DEFAULT_GOAL := help
SHELL := /bin/sh
GO ?= go
# One set of flags for build, vet and test: other flags would compile everything twice.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help demo build assets generate check-generated test race bench vet fmt clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## Build and start everything on this machine; needs no account and no GPU
	@bin/tokenfactory demo --listen 127.0.0.1:8080 --data demo-data

build: assets ## Build both programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tokenfactory ./cmd/tokenfactory
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tokenfactory-agent ./cmd/tokenfactory-agent

assets: static/vendor/manifest.json ## Bundle what the browser downloads

# Rebuilt when a style, a script or a page changed: the stylesheet holds only the
# classes that the pages use.
static/vendor/manifest.json: node_modules/.package-lock.json static/build.mjs $(shell find static/js static/css views -name '*.js' -o -name '*.css' -o -name '*.templ' -o -name '*.go' ! -name '*_templ.go')
	node static/build.mjs

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
	@touch $@

generate: ## Write the Go code of the templates
	$(GO) tool templ generate

check-generated: generate ## Fail when a template was changed without `make generate`
	@git diff --exit-code --stat -- '*_templ.go' || { echo "Run make generate and commit the result."; exit 1; }

vet: ## Check formatting and common mistakes
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	$(GO) vet ./...

test: ## Install what tests need, then run everything: unit, store on two databases, gateway, browser
	@e2e/prepare.sh
	@$(MAKE) --no-print-directory build check-generated vet
	e2e/with-postgres.sh $(GO) test ./...

race: ## The packages where things happen at once, under the race detector
	e2e/with-postgres.sh $(GO) test -race ./gateway/... ./metrics/... ./agents/... ./store/... ./engines/...

bench: build ## What the gateway costs beside a bare proxy and nginx; about ten minutes, prints a table and writes bench.json
	$(GO) build -o bin/bench ./e2e/bench
	bin/bench $(BENCH_FLAGS)

fmt: ## Format the Go code and the templates
	gofmt -w $$(git ls-files '*.go')
	$(GO) tool templ fmt views

clean: ## Remove what was built; data stays
	rm -rf bin static/vendor/* node_modules
