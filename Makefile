# cellgate: `make` prints this help.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := $(CURDIR)/bin
TOOLS := $(BIN)/tools
# Where `make run` keeps its shards. Running again with the same place finds
# the claims again.
DATA ?= .cellgate/run
CELLS ?= 3
HOSTS ?= 1000
VALIDATE := github.com/bufbuild/protovalidate@v1.2.2

.PHONY: help
help: ## Print this help.
	@awk 'BEGIN {FS = ":.*## "; print "Targets:"} \
	  /^[a-z-]+:.*## / {line = sprintf("  %-17s", $$1); n = split($$2, w, " "); \
	    for (i = 1; i <= n; i++) {if (length(line) + length(w[i]) > 98) {print line; line = sprintf("%19s", "")} line = line " " w[i]} print line}' $(MAKEFILE_LIST)

# GOGC: agents of thousands of hosts are in the same process; a smaller heap costs `make run` little.
.PHONY: run
run: build ## Place the bundled Nova requests on 3 cells x 1,000 hosts, then serve. ONCE=1 stops after the table; DATA=DIR, CELLS=, HOSTS=, NOVA_CONF=FILE; REST=ADDR:PORT, GRPC=ADDR:PORT, PORT= of the first cell.
	GOGC=$${GOGC:-60} $(BIN)/cellgate dev --cells $(CELLS) --hosts $(HOSTS) --data $(DATA) --sample $(if $(ONCE),--once) $(if $(NOVA_CONF),--nova-conf $(NOVA_CONF)) \
	  $(if $(REST),--http $(REST)) $(if $(GRPC),--grpc $(GRPC)) $(if $(PORT),--cell-base-port $(PORT))

# Without cgo the binary is static. -buildvcs overrides GOFLAGS, so that `cellgate version` has
# its revision.
.PHONY: build
build: ## Build bin/cellgate.
	CGO_ENABLED=0 tools/build.sh -buildvcs=auto -o $(BIN)/cellgate ./cmd/cellgate

# schedule/nova starts no goroutine (a test of the import rules says so), and with the race
# detector its thousands of cases take four minutes: it runs without.
PURE := schedule/nova
# These leave some tests out with the race detector (internal/norace), which run without it.
LEFT_OUT := systemtest/simulation shard/sqlshard systemtest cmd/cellgate shard/pebbleshard schedule internal/expression shard
# What takes longest begins first, so that no processor waits for it at the end.
LONGEST := cmd/cellgate shard/sqlshard gateway cell systemtest gateway/legacy/novadb shard/pebbleshard
# With the detector a process that ends waits a second for races that are just being found; by
# then the tests' goroutines have ended (goleak).
RACED := GORACE=atexit_sleep_ms=100
# Two packages a processor, since many tests wait; make lint runs go vet.
BRISK := -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -vet=off
# Memory for time: a tenth and more of what they take, with the detector nothing.
SPARE := GOGC=400

# The limit of a package: it only ends one that hangs.
LIMIT := -timeout 60m

# Both parts run, whatever fails in the first one.
.PHONY: test
test: needs $(TOOLS)/.stamp ## Run all tests, those that start goroutines with the race detector; what was skipped is counted and listed.
	@status=0; \
	$(RACED) tools/test.sh race -race -count=1 $(LIMIT) $(BRISK) $$(go list $(LONGEST:%=./%) ./... | grep -vxF cellgate/$(PURE) | awk '!seen[$$0]++') || status=1; \
	CELLGATE_RAN_RACED=1 CGO_ENABLED=0 $(SPARE) tools/test.sh plain -count=1 $(LIMIT) $(BRISK) ./$(PURE) $(LEFT_OUT:%=./%) || status=1; \
	[ $$status = 0 ] || echo "make test: tests failed; every event is in .cellgate/tests-race.json and .cellgate/tests-plain.json" >&2; \
	exit $$status

# A number of runs, not a time: a target that ends by its time sometimes fails
# with "context deadline exceeded" though nothing is wrong (golang/go#75804).
FUZZ_RUNS ?= 10000

# go test fuzzes one target at a time; the binary is built once a package.
.PHONY: fuzz
fuzz: ## Fuzz what reads extra specs, JSON and requests, and what keeps facts in one form: each target FUZZ_RUNS (10000) times.
	@mkdir -p .cellgate/fuzz
	@for p in schedule schedule/nova internal/python shard internal/expression; do \
		go test -c -fuzz . -o $(BIN)/fuzz.test ./$$p; cd $$p; \
		for t in $$($(BIN)/fuzz.test -test.list '^Fuzz'); do \
			echo "$$p $$t"; \
			$(BIN)/fuzz.test -test.run '^$$' -test.fuzz "^$$t$$" -test.fuzztime $(FUZZ_RUNS)x -test.fuzzcachedir $(CURDIR)/.cellgate/fuzz | tail -n 20; \
		done; cd $(CURDIR); \
	done

.PHONY: test-long
test-long: needs needs-browser $(TOOLS)/.stamp ## Run the property and crash tests with many more seeds, and the console in a browser (about 30 minutes).
	@status=0; \
	CELLGATE_LONG=1 tools/test.sh long-race -race -count=1 -timeout 90m ./... || status=1; \
	CELLGATE_LONG=1 CELLGATE_RAN_RACED=1 tools/test.sh long-plain -count=1 -timeout 90m $(LEFT_OUT:%=./%) || status=1; \
	exit $$status

.PHONY: chaos
chaos: ## Kill -9 a cell, the gateway or everything, 20 times in the middle of 2,000 requests at once, and look for what was acknowledged (10 minutes).
	@mkdir -p .cellgate
	CELLGATE_LONG=1 CELLGATE_CHAOS_TABLE=$(CURDIR)/.cellgate/chaos.txt go test -count=1 -timeout 60m -v -run 'KilledAtRandomMoments' ./cmd/cellgate

.PHONY: test-nova
test-nova: needs needs-nova $(TOOLS)/.stamp ## Run the conductor plug-in in real Nova, and ask Nova anew what the core decides; installs Nova (Debian; 70 MB, 90 s).
	CELLGATE_LONG=1 $(TOOLS)/gotestsum --format testname -- -count=1 -timeout 15m ./deploy/nova/...
	CELLGATE_LONG=1 $(TOOLS)/gotestsum --format testname -- -count=1 -timeout 15m -run 'AgainstNova|AgainstPlacement' ./schedule ./schedule/nova

.PHONY: test-candidates
test-candidates: needs-placement $(TOOLS)/.stamp ## Ask a real Placement 4,000 random queries for allocation candidates, and compare; installs it (Debian). 'go test ./schedule/placement -run Bundled -update' bundles its answers anew.
	CELLGATE_LONG=1 $(TOOLS)/gotestsum --format standard-verbose -- -count=1 -timeout 30m -run RealPlacement ./schedule/placement

.PHONY: needs-placement
needs-placement:
	@missing=; \
	/usr/bin/python3 -W ignore -c 'import placement' 2>/dev/null || missing=" python3-placement"; \
	$(call install,the tests against Placement need)

.PHONY: needs-browser
needs-browser:
	@missing=; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	$(call install,the tests of the console need)
	@[ -d console/node_modules/axe-core ] || { cd console && npm ci --no-audit --no-fund; }

# Debian 12 has Nova Zed and Placement 8.
.PHONY: needs-nova
needs-nova:
	@missing=; \
	/usr/bin/python3 -W ignore -c 'import nova.objects, placement, grpc, google.protobuf' 2>/dev/null || missing=" python3-nova python3-placement python3-grpcio python3-protobuf"; \
	$(call install,the tests of the plug-in in Nova need)

.PHONY: test-placement
test-placement: needs-placement ## Send random requests to OpenStack's own Placement and to the Placement API, and compare the answers; tap it, and go back; installs Placement. SEQUENCES (100), REQUESTS of each (150), SEED. 'go test ./gateway/placement/mirror -run Recorded -update' records anew what a copy reads.
	CELLGATE_LONG=1 SEQUENCES=$(or $(SEQUENCES),100) go test -count=1 -timeout 60m -v -run 'TestDifferential|RealPlacement' ./gateway/placement ./gateway/placement/mirror

# A clone of openstack/placement has the suite (Apache-2.0) in placement/tests/functional; Debian's package does not.
.PHONY: test-gabbi
test-gabbi: needs-gabbi ## Run Placement's own HTTP tests (gabbi) against the Placement API, and count them: GABBITS=…/placement/placement/tests/functional of a clone of openstack/placement, release 8.0.0.
	@test -d "$(GABBITS)/gabbits" || { echo "test-gabbi: set GABBITS to placement/tests/functional of a clone of openstack/placement" >&2; exit 1; }
	GABBITS=$(abspath $(GABBITS)) go test -count=1 -v -run TestGabbi ./gateway/placement

.PHONY: needs-gabbi
needs-gabbi:
	@missing=; \
	/usr/bin/python3 -W ignore -c 'import gabbi, os_traits, os_resource_classes, oslo_utils' 2>/dev/null || missing=" python3-gabbi python3-os-traits python3-os-resource-classes python3-oslo.utils"; \
	$(call install,the tests of Placement need)

.PHONY: openstack-up
openstack-up: build ## Start a real OpenStack control plane (Nova Zed with fake computes, two cells) with cellgate in the place of nova-scheduler. HOSTS=10, HOSTS2=2; installs Debian's packages, as root (300 MB, 5 minutes).
	deploy/openstack/install.sh
	$(if $(filter file,$(origin HOSTS)),HOSTS=10 )deploy/openstack/up.sh

.PHONY: openstack-down
openstack-down: ## Stop what openstack-up started; its data stay in .cellgate/openstack.
	deploy/openstack/down.sh

.PHONY: test-openstack
test-openstack: openstack-up ## Boot, move, evacuate and delete servers on that control plane, kill -9 gateways, cells and RabbitMQ meanwhile, and compare claims and allocations with servers; one PASS or FAIL a check (30 minutes).
	deploy/openstack/test.sh

# A stack of its own, whose scheduler is Nova's: the script stops the cells.
.PHONY: test-switch
test-switch: export SCHEDULER = nova
test-switch: export STACK = $(CURDIR)/.cellgate/openstack-switch
test-switch: build ## Move Placement's API from placement-api to the cells, then the topic scheduler to a gateway, and both back on such a control plane, while servers are booted and deleted; one PASS or FAIL a check (10 to 16 minutes).
	deploy/openstack/install.sh
	deploy/openstack/up.sh
	deploy/openstack/switch-placement.sh
	deploy/openstack/down.sh

.PHONY: test-store
test-store: needs $(TOOLS)/.stamp ## Run the conformance suite and the fault tests of the shard on every backend there is, and print what each came to. CockroachDB: CELLGATE_TEST_COCKROACH_URL.
	@mkdir -p .cellgate && rm -f .cellgate/stores
	@status=0; CELLGATE_STORE_SUMMARY=$(CURDIR)/.cellgate/stores $(TOOLS)/gotestsum --format pkgname -- -count=1 -timeout 60m ./shard/... || status=$$?; \
	awk -f shard/shardtest/summary.awk .cellgate/stores; \
	exit $$status

# SEED= repeats a run as far as its goroutines do.
.PHONY: sim-store
sim-store: needs ## Kill -9 the scheduler and PostgreSQL in 1,000,000 claim operations through a proxy with faults, and look for what was acknowledged (7 minutes; half an hour on a busy machine); CELLGATE_TEST_COCKROACH_URL: there too, without killing the server. SIM_OPS=, SIM_LIMIT=, SEED=.
	@mkdir -p .cellgate && rm -f .cellgate/sim-store.md
	CELLGATE_SIM_OPS=$(or $(SIM_OPS),1000000) CELLGATE_SIM_LIMIT=$(or $(SIM_LIMIT),2h) CELLGATE_SEED=$(SEED) CELLGATE_SIM_SUMMARY=$(CURDIR)/.cellgate/sim-store.md \
	go test -count=1 -timeout 3h -v -run 'TestI1_I3_I8_Simulation' ./shard/sqlshard

# The plan of a seed is always the same, what comes of it nearly so: see systemtest/simulation/doc.go.
.PHONY: sim
sim: ## Simulate the whole in virtual time, under 3,000 seeds' faults (20 minutes; more than an hour on a busy machine), and check every invariant on the way. SEED=n RUNS=20 repeats one, SEED=n SIM_SEEDS=50 runs 50 from n on, SIM_LENGTH=2 has longer plans.
	@CELLGATE_SIM_SEEDS=$(or $(SIM_SEEDS),$(if $(SEED),1,3000)) CELLGATE_SIM_SEED=$(SEED) CELLGATE_SIM_RUNS=$(RUNS) CELLGATE_SIM_LENGTH=$(SIM_LENGTH) \
	go test -count=1 -timeout 6h -v -run '_Simulation$$' ./systemtest/simulation | grep --line-buffered -v '^=== \|^ *--- PASS'

.PHONY: bench-store
bench-store: needs ## Measure claims a second on a PostgreSQL of its own and on Pebble with cellgate bench store (ten minutes). BENCH_TIME=5s a run. A server of yours: bin/cellgate bench store --store postgres://USER@HOST/.
	@echo "commit $$(git describe --always --dirty 2>/dev/null || echo none), $$(go version | cut -d' ' -f3)"
	@CELLGATE_BENCH_STORE=$(or $(BENCH_TIME),5s) go test -count=1 -timeout 1h -v -run '^TestBenchStore_Measured$$' ./cmd/cellgate | grep -v '^=== '

.PHONY: shard-doc
shard-doc: needs ## Write the tables and plans of docs/reference/shard.md, from a real PostgreSQL.
	CELLGATE_WRITE_PLANS=1 go test ./shard/sqlshard -run 'TestPlans|TestTables' -count=1

.PHONY: bench
bench: $(TOOLS)/.stamp ## Run the benchmarks (6 times each) and print their medians.
	./bench.sh

.PHONY: bench-select
bench-select: needs ## Measure how long hosts for a request take to find in the host table, by the SQL filter and by reading all rows, at 100 to 100,000 hosts, and print the table (10 minutes). SELECT_HOSTS=10000 stops there.
	@mkdir -p .cellgate
	@CELLGATE_SELECT_TABLE=$(CURDIR)/.cellgate/select.md CELLGATE_SELECT_HOSTS=$(SELECT_HOSTS) go test -count=1 -timeout 1h -run TestSelectTable ./cell >.cellgate/select.log || { cat .cellgate/select.log; exit 1; }
	@cat .cellgate/select.md

.PHONY: bench-cold
bench-cold: needs ## Measure how long a replica on PostgreSQL takes from its start to its first answer, from what the database finds and with its table, at 800 to 100,000 hosts, and print the table (10 minutes). SELECT_HOSTS=10000 stops there.
	@mkdir -p .cellgate
	@CELLGATE_COLD_TABLE=$(CURDIR)/.cellgate/cold.md CELLGATE_SELECT_HOSTS=$(SELECT_HOSTS) go test -count=1 -timeout 1h -run TestColdTable ./cell >.cellgate/cold.log || { cat .cellgate/cold.log; exit 1; }
	@cat .cellgate/cold.md

.PHONY: bench-legacy
bench-legacy: needs ## Measure a cell of 10,000 hosts answered from Nova's tables, on MariaDB and PostgreSQL: first load, refresh, select, import into a shard, and Nova's own way (8 minutes).
	@go test -count=1 -v -run TestYardstick ./internal/bench | sed -n 's/.*go:[0-9]*: /yardstick: /p'
	@CELLGATE_BENCH_LEGACY=1 go test -run '^$$' -bench 'LegacyCell|Import' -benchmem -benchtime 4s -p 1 -timeout 30m ./gateway/legacy/importer

.PHONY: bench-seed
bench-seed: needs ## Compare three ways to know the hosts, 1,000 of them, with requests racing with state changes: all rows read each request, rows cached for 60 s, and cellgate (12 minutes). Prints the tables; the chart is .cellgate/comparison/comparison.svg.
	@go test -count=1 -v -run TestYardstick ./internal/bench | sed -n 's/.*go:[0-9]*: /yardstick: /p'
	@mkdir -p .cellgate/comparison
	@CELLGATE_COMPARISON=$(CURDIR)/.cellgate/comparison go test -count=1 -timeout 30m -run TestComparison ./systemtest/comparison >.cellgate/comparison/log || { cat .cellgate/comparison/log; exit 1; }
	@cat .cellgate/comparison/comparison.md

.PHONY: load
load: build $(TOOLS)/.k6 proto/third_party/buf/validate/validate.proto ## Load cells, agents and a gateway of their own through REST and gRPC with k6; fails when a threshold does. SCENARIO=smoke|steady|knee|spike|soak|cell-loss|upgrade|pack-first, CELLS=3, HOSTS=1000 a cell, RATE=60, STEADY=seconds, TIMES=.
	loadtest/run.sh $(BIN)/cellgate $(TOOLS)/k6

.PHONY: bench-scale
bench-scale: build ## Measure start-up time, memory and selections a second with cells, agents and gateway as processes (4 minutes, 8 GiB), and print the table. SIZES="3x1000 10x1000 30x1000": cells x hosts.
	loadtest/scale.sh $(BIN)/cellgate $(SIZES)

.PHONY: peers
peers: needs-peers build ## Measure claims a second of Placement (Debian; uwsgi, MariaDB) and of cellgate on the same hosts, in turns, and Nova's filters (15 minutes); installs them. Prints the table; raw results and the chart are in .cellgate/peers. PEERS_HOSTS=100,10000, PEERS_ORDERS=pack-first,spread,random, PEERS_SECONDS=3.
	@mkdir -p .cellgate/peers
	@go test -c -o $(BIN)/peers.test ./loadtest/peers
	@cd loadtest/peers && CELLGATE_PEERS=$(CURDIR)/.cellgate/peers CELLGATE_PEERS_BINARY=$(BIN)/cellgate PEERS_HOSTS=$(PEERS_HOSTS) PEERS_ORDERS=$(PEERS_ORDERS) PEERS_SECONDS=$(PEERS_SECONDS) \
	$(BIN)/peers.test -test.run '^TestPeers_' -test.timeout 2h >$(CURDIR)/.cellgate/peers/log || { cat $(CURDIR)/.cellgate/peers/log; exit 1; }
	@cat .cellgate/peers/peers.md

# Not the package placement-api: it starts a service of its own.
.PHONY: needs-peers
needs-peers:
	@missing=; \
	/usr/bin/python3 -W ignore -c 'import nova.objects, placement, pymysql' 2>/dev/null || missing=" python3-nova python3-placement python3-pymysql"; \
	command -v uwsgi >/dev/null || missing="$$missing uwsgi-core"; \
	compgen -G '/usr/lib/uwsgi/plugins/python3*_plugin.so' >/dev/null || missing="$$missing uwsgi-plugin-python3"; \
	command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || missing="$$missing mariadb-server-core"; \
	command -v mariadb-dump >/dev/null || missing="$$missing mariadb-client"; \
	$(call install,the measurement of the peers needs)

.PHONY: bench-agents
bench-agents: ## Measure how fresh a cell's picture of 10,000 hosts is: changes, bursts of 3,000, and a replica that is killed (4 minutes). AGENTS_HOSTS=1000, AGENTS_SECONDS=20.
	@CELLGATE_BENCH_AGENTS=1 go test -count=1 -v -run '^TestBenchAgents$$' -timeout 30m ./cmd/cellgate

.PHONY: bench-stalls
bench-stalls: ## Measure selections through REST beside 20,000 leases that end together, as many releases, bursts of 3,000 reports, and 10,000 hosts registered anew (3 minutes). STALLS_HOSTS=, STALLS_LEASES=, STALLS_CALLERS=, STALLS_SECONDS=.
	@CELLGATE_BENCH_STALLS=1 go test -count=1 -v -run '^TestBenchStalls$$' -timeout 30m ./cmd/cellgate

.PHONY: bench-system
bench-system: build ## Measure selections with durable claims a second on 3 and 10 cells x 1,000 hosts.
	$(BIN)/cellgate bench --self --cells 3 --hosts 1000 --callers 1,8,64 --release end
	$(BIN)/cellgate bench --self --cells 10 --hosts 1000 --callers 1,8,64 --release end

.PHONY: demo-upgrade
demo-upgrade: ## Upgrade three cells of 200 hosts from Nova's own tables (MariaDB) to their agents, compute by compute, under load, nine tenths full; stop a gateway, kill a cell and roll computes back (five minutes).
	@mkdir -p .cellgate
	CELLGATE_DEMO_UPGRADE=1 CELLGATE_DEMO_TABLE=$(CURDIR)/.cellgate/upgrade.txt go test ./cmd/cellgate -run TestI10_RollingUpgradeOfACloud -count=1 -v -timeout 40m

.PHONY: sick
sick: ## Measure selections while one of three cell processes is stopped, killed and frozen, and after (two minutes).
	CELLGATE_LONG=1 CELLGATE_SICK=1 go test ./cmd/cellgate -run TestI7_StoppedAndFrozenCellsOfRealProcesses -count=1 -v -timeout 10m

.PHONY: overload
overload: ## Offer 1, 5 and 20 times what two gateways over three cells can do, beside a polite caller, and print goodput, refusals, memory and recovery (two minutes).
	CELLGATE_OVERLOAD=1 go test ./cmd/cellgate -run TestOverload_TwoGatewaysThreeCells_GoodputHolds -count=1 -v -timeout 15m

.PHONY: lint
lint: $(TOOLS)/.stamp proto/third_party/buf/validate/validate.proto ## Check formatting, go vet, staticcheck, the words of pages and methods, the protos, and that SQL is in the grammar of CockroachDB.
	@f=$$(git ls-files '*.go' | grep -v '\.pb\.'); out=$$(gofmt -l $$f; $(TOOLS)/gofumpt -l $$f); if [ -n "$$out" ]; then echo "not formatted (make fmt): $$out"; exit 1; fi
	go vet ./...
	go run ./cmd/words
	$(TOOLS)/staticcheck ./...
	cd proto && $(TOOLS)/buf lint && $(TOOLS)/buf breaking --against baseline.binpb
	cd tools/cockroachsql && go run . ../../shard/sqlshard ../../docs/reference/shard.md

.PHONY: fmt
fmt: $(TOOLS)/.stamp proto/third_party/buf/validate/validate.proto ## Format the Go and proto files.
	$(TOOLS)/gofumpt -w $$(git ls-files '*.go' | grep -v '\.pb\.')
	cd proto && $(TOOLS)/buf format -w

.PHONY: gen
gen: $(TOOLS)/.stamp proto/third_party/buf/validate/validate.proto ## Generate code from proto/, the tables of docs/reference/telemetry.md, and docs/reference/configuration.md.
	cd proto && PATH=$(TOOLS):$$PATH buf generate && $(TOOLS)/buf build --path cellgate/v1 -o $(BIN)/api.binpb
	go run ./cmd/openapi-docs $(BIN)/api.binpb proto/openapi.json
	go run ./deploy/nova/descriptors > $(BIN)/schema && mv $(BIN)/schema deploy/nova/cellgate_nova/schema.binpb
	go run ./cmd/telemetry-docs docs/reference/telemetry.md
	go run ./cmd/config-docs docs/reference/configuration.md
	go run ./cmd/measurements-docs docs/measurements docs/reference/measurements.md

.PHONY: console
console: ## Build the console (console/, with npm) into gateway/console/dist, which is committed.
	cd console && npm ci --ignore-scripts && npm run build
	console/sums.sh > gateway/console/dist.sha256

.PHONY: measurements-doc
measurements-doc: ## Write docs/reference/measurements.md from the raw results in docs/measurements.
	go run ./cmd/measurements-docs docs/measurements docs/reference/measurements.md

.PHONY: gen-check
gen-check: ## Fail when what is generated is not what 'make gen' writes.
	@before=$$(find proto deploy/nova docs/reference/telemetry.md docs/reference -name telemetry.md -o -name configuration.md -o -name measurements.md -o -name '*.pb*.go' -o -name openapi.json -o -name schema.binpb | sort | xargs sha256sum); \
	$(MAKE) --no-print-directory gen; \
	after=$$(find proto deploy/nova docs/reference/telemetry.md docs/reference -name telemetry.md -o -name configuration.md -o -name measurements.md -o -name '*.pb*.go' -o -name openapi.json -o -name schema.binpb | sort | xargs sha256sum); \
	if [ "$$before" != "$$after" ]; then diff <(echo "$$before") <(echo "$$after") || true; echo "generated code was stale: commit what 'make gen' wrote"; exit 1; fi
	@console/sums.sh | diff gateway/console/dist.sha256 - || { echo "gateway/console/dist is not of the sources in console/: run make console, and commit what it wrote"; exit 1; }

.PHONY: parity
parity: ## Compare with what Nova answered and write the tables of docs/reference/nova-parity.md.
	CELLGATE_PARITY=write go test ./schedule/nova -run 'TestParity|TestGolden' -count=1 -v | grep -v '^=== '

.PHONY: gen-baseline
gen-baseline: $(TOOLS)/.stamp proto/third_party/buf/validate/validate.proto ## Accept the protos as they are as what later ones must not break (needs a decision record).
	cd proto && $(TOOLS)/buf build -o baseline.binpb --path cellgate

.PHONY: tools
tools: $(TOOLS)/.stamp ## Build the pinned tools (buf, grpcurl, staticcheck, ...) into bin/tools.

$(TOOLS)/.stamp: tools.mod tools.sum
	@echo "building the pinned tools (once, a minute or two) ..."
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install -modfile=tools.mod tool
	@touch $@

# k6 has its own versions of everything: it stays apart from the other tools.
$(TOOLS)/.k6: loadtest/k6.mod loadtest/k6.sum
	@echo "building k6 (once, a minute or two) ..."
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install -modfile=loadtest/k6.mod tool
	@touch $@

# The rules' own schema comes from its Go module, at the pinned version.
proto/third_party/buf/validate/validate.proto: Makefile
	@mkdir -p $(@D)
	dir=$$(go mod download -json $(VALIDATE) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p'); \
	install -m 644 "$$dir/proto/protovalidate/buf/validate/validate.proto" $@

# The race detector needs a C compiler, the SQL shard's tests a PostgreSQL, those of Nova's
# own tables a MariaDB too (the -core packages have no service), those of the message bus a RabbitMQ, whose
# package starts a service of its own on port 5672. The README names these packages.
.PHONY: needs
needs:
	@missing=; \
	command -v gcc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing="$$missing postgresql"; \
	command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || missing="$$missing mariadb-server-core"; \
	command -v mariadb-dump >/dev/null || missing="$$missing mariadb-client"; \
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null || missing="$$missing rabbitmq-server"; \
	$(call install,the tests need)

# Installs the Debian packages of $$missing, or says which these are to who cannot.
define install
[ -z "$$missing" ] || { \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "installing what $(1):$$missing ..."; apt-get update -q && apt-get install -y -q --no-install-recommends $$missing; \
	else echo "$(1) programs that are not installed. On Debian, as root: apt-get install --no-install-recommends$$missing" >&2; exit 1; fi; }
endef

.PHONY: clean
clean: ## Remove what was built, and what `make run` kept.
	rm -rf $(BIN) .cellgate
