# The commands of the house. `make` alone lists them. Everything works with plain Go too; see CONTRIBUTING.md.
.DEFAULT_GOAL := help
TOOL := go tool -modfile=tools/go.mod
FUZZTIME ?= 30s

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z\/-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: dev
dev: ## Run everything on this machine, with a demo
	go run ./cmd/rubato dev --demo

.PHONY: build
build: ## Build every program into bin/
	go build -trimpath -o bin/ ./cmd/...

.PHONY: image
image: ## Build the image that docker-compose.yml runs, with its version and commit
	VERSION=$$(git describe --tags --always --dirty) COMMIT=$$(git rev-parse HEAD) docker compose build

.PHONY: test
test: ## Run every test
	go test ./...

.PHONY: test/race
test/race: ## Run every test under the race detector, in another order
	go test -race -shuffle=on ./...

.PHONY: bench
bench: ## Run every benchmark
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (30s)
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' internal | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$dir/*_test.go | cut -c6-); do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) ./$$dir || exit 1; \
		done; \
	done

.PHONY: chaos
chaos: ## Break the real programs in every way, for long, and print the guarantee card; CARD=FILE.md keeps it, and its JSON beside it
	RUBATO_CHAOS=long RUBATO_CHAOS_CARD=$(if $(CARD),$(abspath $(CARD))) go test -timeout 90m -count=1 -v ./test/chaos

.PHONY: sim
sim: ## Simulate a million steps, then prove that seeded bugs are found
	go test ./test/sim -run EveryMoveIsLegal -v -timeout 3h -rapid.checks=12000 -rapid.seed=0
	go run ./test/sim/mutate

.PHONY: tempo
tempo: ## Simulate the fleets in examples/ for a day with 50 seeds, print their tables, and check their figures
	RUBATO_TEMPO=full go test ./cmd/rubato -run FleetsKeepTheirFigures -count=1 -v
	RUBATO_TEMPO=full go test ./internal/endpoints -run NoStreamOfAnswersLeavesTheClamps -timeout 2h -count=1 -v

.PHONY: chart
chart: ## Render the Helm chart and hold it to the types of the Kubernetes API (its first build takes minutes)
	cd test/helm && go test ./...

.PHONY: cover
cover: ## Show what tests reach, by function
	go test -coverpkg ./internal/... -coverprofile cover.out ./...
	go tool cover -func cover.out

.PHONY: lint
lint: ## Run the linters (their first build takes minutes)
	$(TOOL) golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt

.PHONY: generate
generate: ## Write the generated code again: SQL, pages, REST server, REST client
	$(TOOL) sqlc generate
	$(TOOL) templ generate -path internal/web -log-level error
	go generate ./...
	cd client && go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../api/openapi.yaml

.PHONY: docs
docs: ## Write the generated parts of documents again
	go test ./test/house -update

.PHONY: sbom
sbom: ## Write sbom.json, the bill of materials in the form of CycloneDX
	go tool -modfile=tools/supply/go.mod cyclonedx-gomod mod -licenses -json -output sbom.json

.PHONY: release
release: ## Rehearse the release VERSION into dist/: archives, notes, bill of materials, checksums
	tools/release --dry-run $(VERSION)

.PHONY: tidy
tidy: ## Tidy every module
	go mod tidy
	cd tools && go mod tidy
	cd tools/supply && go mod tidy
	cd test/bench/river && go mod tidy
	cd test/helm && go mod tidy

.PHONY: ci
ci: ## Check everything as it is checked for every change
	.ci/run
