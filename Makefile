# `make help` lists the targets. Everything made here lives in .venv and .cache.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Without bytecode kept, every Python that a test starts compiles all libraries anew: 2.5 s instead of 0.6.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?=
N ?= 1000000
EXAMPLES ?= 20000
CASES ?= 10000
ROUNDS ?= 20
UI ?=
ROWS ?= 1000000
# One more than the cores of a small machine: tests wait for servers, too.
WORKERS ?= 3
PYTEST_ARGS ?=
SIZES ?= 1000000,10000000,100000000
LADDER_ARGS ?=
PYTHONS ?= 3.12 3.13
BASE ?= HEAD~1
BESIDE_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
JARS := $(CACHE)/jars
S3_JARS := $(CACHE)/s3-jars
AZURITE := $(CACHE)/azurite
KAFKA := $(CACHE)/kafka
KUSTO := $(CACHE)/kusto
CLIENTS := $(CACHE)/clients
LOWEST := $(CACHE)/lowest
NATIVE := build/native
CARGO = PATH="$$PATH:$$HOME/.cargo/bin" CARGO_TARGET_DIR=$(abspath $(NATIVE)) cargo
EXTRAS := spark,avro,engines,pandas,search,server,docs,dev

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(CACHE)/.tools $(VENV)/.installed $(JARS)/.resolved $(S3_JARS)/.resolved $(KAFKA)/.resolved $(AZURITE)/.installed $(KUSTO)/.installed $(CACHE)/spark.jsa ## Create .venv, fetch Spark's jars, the Azure Blob emulator, a Kafka broker and Kusto's parser

.PHONY: setup-clients
setup-clients: setup-chromium setup-mono $(CLIENTS)/.built $(CLIENTS)/java/.built $(CLIENTS)/jdbc/.built ## Build the Flight clients in Go and Java that tests use (Go 1.25 or newer, a JDK), fetch the JDBC driver, and install Chromium and Mono

.PHONY: setup-chromium
setup-chromium: ## Install Chromium, for the tests of the page, unless it is there
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
		|| { echo "installing Chromium"; apt-get install -y --no-install-recommends chromium >/dev/null 2>&1; } \
		|| echo "Chromium is missing, and could not be installed: the tests of the page in a browser are skipped"

.PHONY: setup-mono
setup-mono: ## Install Mono, for the test of the native library in C#, unless it is there
	@{ command -v mono && command -v mcs; } >/dev/null \
		|| { echo "installing Mono"; apt-get install -y --no-install-recommends mono-runtime mono-mcs >/dev/null 2>&1; } \
		|| echo "Mono is missing, and could not be installed: the test of the native library in C# is skipped"

.PHONY: demo
demo: setup ## List a log of a million files beside deltalake; then ingest, index and query telemetry in Spark, DuckDB, Polars. UI=1 ends with its page, until Ctrl-C
	@BENCH_DIR=$(CACHE)/effect $(BIN)/python -m benchmarks.effect
	$(BIN)/python scripts/demo.py
	@if [ -n "$(filter-out 0,$(UI))" ]; then echo; echo "The page of this table, until Ctrl-C:"; $(BIN)/sidecar ui $(CACHE)/demo/telemetry; fi

.PHONY: test
test: setup lint ## Lint, types, import rules, and the tests: for every push
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not long" $(PYTEST_ARGS)

.PHONY: thorough
thorough: setup lint ## As `test`, and the long tests: many cases, processes that are killed; before a release
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

.PHONY: check
check: lint ## Lint, and the tests that need no server, with fewer random cases: for every change
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not server and not slow and not long" --hypothesis-profile check $(PYTEST_ARGS)

# What a user's installation does without Spark and servers: reading, the command, rows, predicates, the page.
INSTALLED_TESTS := tests/test_table.py tests/test_like_deltalake.py tests/cli tests/data tests/pipeline/test_avro.py \
  tests/predicates/test_evaluation.py tests/predicates/test_predicate_tuples.py tests/scan tests/server/test_access.py \
  tests/server/test_page.py tests/server/test_same_answers.py tests/server/test_sql.py

.PHONY: lowest
lowest: $(VENV)/.installed ## The tests of reading and of the command, with the lowest versions pyproject.toml declares
	$(BIN)/uv venv --quiet --clear --no-python-downloads --python 3.11 $(LOWEST)
	VIRTUAL_ENV=$(CURDIR)/$(LOWEST) $(BIN)/uv pip install --quiet --resolution lowest-direct -e '.[avro,engines,pandas,server]' \
	  $$(grep -E '^(adbc-driver-flightsql|adbc-driver-manager|boto3|deltalake|hypothesis|psutil|pytest|pytest-xdist)==' constraints.txt)
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m "not server and not long" --hypothesis-profile check \
	  -W ignore::DeprecationWarning -p no:cacheprovider $(INSTALLED_TESTS) $(PYTEST_ARGS)

.PHONY: pythons
pythons: $(VENV)/.installed ## The same tests, and search, with the wheel and all its extras on each of PYTHONS (3.12 and 3.13; names or paths)
	$(BIN)/uv build --quiet --wheel --clear --out-dir $(CACHE)/wheel .
	for python in $(PYTHONS); do \
	  $(BIN)/uv venv --quiet --clear --no-python-downloads --python $$python $(CACHE)/pythons || exit 1; \
	  VIRTUAL_ENV=$(CURDIR)/$(CACHE)/pythons $(BIN)/uv pip install --quiet --constraint constraints.txt \
	    "$$(ls $(CURDIR)/$(CACHE)/wheel/*.whl)[$(EXTRAS)]" || exit 1; \
	  $(CACHE)/pythons/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m "not server and not long" \
	    --hypothesis-profile check -p no:cacheprovider $(INSTALLED_TESTS) tests/search $(PYTEST_ARGS) || exit 1; \
	done

# In a fresh clone every worker would compile all code, which takes memory, too, where a test measures it: here it is
# compiled once, on the core that mypy leaves.
COMPILED = { [ -d tests/__pycache__ ] || $(BIN)/python -m compileall -q src benchmarks; [ -d tests/__pycache__ ] || $(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true; }

.PHONY: lint
lint: $(VENV)/.installed ## Ruff, mypy and the import rules
	@echo "ruff, import rules, mypy"
	@$(BIN)/mypy & types=$$!; \
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-logo && $(COMPILED); rest=$$?; \
	wait $$types && exit $$rest

.PHONY: format
format: $(VENV)/.installed ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/.installed ## Build the documentation as a site, in .cache/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "$(CACHE)/site/index.html"

.PHONY: screenshots
screenshots: $(VENV)/.installed setup-chromium ## Make the pictures of the page in the docs anew
	DELTA_SIDECAR_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/server/test_page_browser.py -k picture

.PHONY: properties
properties: $(VENV)/.installed ## The property suite with EXAMPLES random cases per property (20000)
	DELTA_SIDECAR_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(WORKERS) tests/properties $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.installed ## Read through an index whose files are damaged at random, CASES times (10000)
	DELTA_SIDECAR_CASES=$(CASES) $(BIN)/python -m pytest -n $(WORKERS) tests/fuzz $(PYTEST_ARGS)

.PHONY: ingest-cases
ingest-cases: CASES = 2000
ingest-cases: setup ## Ingest CASES random sets of files (2000) on local Spark, and check that no record is lost
	DELTA_SIDECAR_INGEST_CASES=$(CASES) DELTA_SIDECAR_TEST_JVM=-XX:+UseSerialGC $(BIN)/python -m pytest \
	  -n 2 --dist loadgroup tests/integration/ingest/test_property.py $(PYTEST_ARGS)

.PHONY: change-cases
change-cases: CASES = 50
change-cases: setup ## Compare our change feed with Spark's after CASES random histories (50) of a table
	DELTA_SIDECAR_CHANGE_CASES=$(CASES) DELTA_SIDECAR_TEST_JVM=-XX:+UseSerialGC $(BIN)/python -m pytest \
	  tests/integration/spark/test_changes.py $(PYTEST_ARGS)

.PHONY: query-cases
query-cases: CASES = 2000
query-cases: $(VENV)/.installed ## Ask CASES random queries (2000) in each analyzer, and compare with a matcher in plain Python
	DELTA_SIDECAR_QUERY_CASES=$(CASES) $(BIN)/python -m pytest tests/search/test_queries.py -k model $(PYTEST_ARGS)

.PHONY: split-races
split-races: CASES = 20
split-races: setup ## Build, merge and purge splits at once, CASES builds of each writer (20), and die at every write, on local disk and S3
	DELTA_SIDECAR_SPLIT_RACES=$(CASES) $(BIN)/python -m pytest tests/search/test_split_races.py \
	  tests/integration/object_store/test_search_tables.py $(PYTEST_ARGS)

.PHONY: sync-cases
sync-cases: CASES = 20
sync-cases: setup ## Sync a table by every strategy after CASES random histories (20), and compare all rows
	DELTA_SIDECAR_SYNC_CASES=$(CASES) DELTA_SIDECAR_TEST_JVM=-XX:+UseSerialGC $(BIN)/python -m pytest \
	  tests/integration/spark/test_sync.py $(PYTEST_ARGS)

.PHONY: native
native: $(VENV)/.installed ## Build the native library into build/native, and run its tests; needs Rust 1.85 or newer
	@PATH="$$PATH:$$HOME/.cargo/bin" command -v cargo >/dev/null 2>&1 || { echo "native: cargo is missing; install Rust 1.85 or newer" >&2; exit 1; }
	$(CARGO) build --release --manifest-path native/Cargo.toml
	$(CARGO) test --workspace --manifest-path native/Cargo.toml
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests/native $(PYTEST_ARGS)

.PHONY: native-cases
native-cases: $(VENV)/.installed ## Compare the native reader with ours on CASES random logs, indexes and predicates (10000)
	DELTA_SIDECAR_EXAMPLES=$(CASES) DELTA_SIDECAR_NATIVE_CALLS=$(CASES) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal \
	  tests/native/test_cases.py tests/native/test_interface.py $(PYTEST_ARGS)

.PHONY: companion-cases
companion-cases: CASES = 20
companion-cases: setup ## Compare a companion with scans after CASES random histories (20) of its table
	DELTA_SIDECAR_COMPANION_CASES=$(CASES) DELTA_SIDECAR_TEST_JVM=-XX:+UseSerialGC $(BIN)/python -m pytest \
	  tests/integration/spark/test_companion.py $(PYTEST_ARGS)

.PHONY: races
races: setup ## Many writers on one table, killed at random, ROUNDS times (20): every row exactly once
	DELTA_SIDECAR_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -s tests/integration/spark/test_races.py $(PYTEST_ARGS)

.PHONY: lake-races
lake-races: setup ## Every known race of two writers, on classic Spark and on Connect
	DELTA_SIDECAR_LAKE_RACES=all $(BIN)/python -m pytest tests/integration/spark/test_lake_races.py $(PYTEST_ARGS)

.PHONY: bench
bench: $(VENV)/.installed ## Measure a table of N files (1000000) beside its peers
	$(BIN)/python -m benchmarks --files $(N)

.PHONY: ladder
ladder: $(VENV)/.installed ## Measure the ladder on a table of N files, from deltalake's open to the index
	$(BIN)/python -m benchmarks.ladder --files $(N) $(LADDER_ARGS)

.PHONY: scale
scale: $(VENV)/.installed ## Measure what grows with a table, on indexes of 1, 10 and 100 million files
	$(BIN)/python -m benchmarks.scale --files $(SIZES)

.PHONY: bench-build
bench-build: setup ## Measure the index build of a table of N files beside Delta's own checkpoint
	$(BIN)/python -m benchmarks.build --n $(N)

.PHONY: beside
beside: setup ## Measure our rows and those of commit BASE in alternating runs: no row may be 5 % slower
	git worktree add --detach --force .cache/beside $(BASE)
	$(BIN)/python -m benchmarks.beside .cache/beside --files $(N) $(BESIDE_ARGS); status=$$?; \
	  git worktree remove --force .cache/beside; exit $$status

.PHONY: bench-imports
bench-imports: $(VENV)/.installed ## Measure the import, and a fresh process to its first file, beside the libraries alone
	$(BIN)/python -m benchmarks.imports

.PHONY: bench-engines
bench-engines: $(VENV)/.installed ## Measure one hour of N files in DuckDB, Polars and DataFusion beside deltalake there
	$(BIN)/python -m benchmarks.engines --files $(N)

.PHONY: bench-flight
bench-flight: $(VENV)/.installed ## Measure a list of N files over Flight beside the local reader, and 100 clients
	$(BIN)/python -m benchmarks.flight --files $(N)

.PHONY: bench-driver
bench-driver: setup ## Measure the driver's memory on a standalone cluster, at 1 and 10 million files
	$(BIN)/python -m benchmarks.driver

.PHONY: bench-ingest
bench-ingest: setup ## Measure the ingest of 10 million rows beside Spark's own partitioned write
	$(BIN)/python -m benchmarks.ingest

.PHONY: bench-changes
bench-changes: setup ## Measure our change reader beside Spark's feed, on commits of a million changed rows
	$(BIN)/python -m benchmarks.changes

.PHONY: bench-search
bench-search: $(VENV)/.installed ## Measure building splits of N lines (1000000), and merging 64 of them
	$(BIN)/python -m benchmarks.search_build --lines $(N)

.PHONY: bench-search-queries
bench-search-queries: $(VENV)/.installed ## Measure search in N lines (1000000) beside DuckDB's LIKE, tantivy alone and SQLite FTS5
	$(BIN)/python -m benchmarks.search_queries --lines $(N)

.PHONY: bench-search-spark
bench-search-spark: setup ## Measure building splits of N lines (1000000) in tasks on local Spark
	$(BIN)/python -m benchmarks.search_spark --lines $(N)

.PHONY: bench-companion
bench-companion: FILES = 100
bench-companion: $(VENV)/.installed ## Measure search in a Delta table of N rows (1000000) in FILES files (100) through its companion
	$(BIN)/python -m benchmarks.search_companion --rows $(N) --files $(FILES)

.PHONY: bench-sync
bench-sync: setup ## Measure a sync of ROWS rows (1000000), 1 % changed, beside feed, window and MERGE by hand
	$(BIN)/python -m benchmarks.sync --rows $(ROWS)

.PHONY: bench-native
bench-native: $(VENV)/.installed ## Measure the native library on an index of N files beside our reader; `make native` first
	$(BIN)/python -m benchmarks.native --files $(N)

.PHONY: clean
clean: ## Remove .venv, .cache and the caches of tools
	rm -rf $(VENV) $(CACHE) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(CACHE)/.tools: scripts/check_tools
	@scripts/check_tools
	@mkdir -p $(CACHE) && touch $@

# uv is a faster pip; setup works without it.
$(VENV)/.installed: pyproject.toml constraints.txt scripts/find_python
	@python=$$(scripts/find_python $(PYTHON)) && \
	if ! $(BIN)/python -c '' 2>/dev/null; then echo "making $(VENV) with $$python"; "$$python" -m venv --clear $(VENV); fi
	@$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv \
		|| echo "uv is not to be had here; going on with pip"
	@if $(BIN)/uv --version >/dev/null 2>&1; then \
		VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'; \
	else \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'; \
	fi
	@touch $@

# What a directory of jars was resolved for stands in its .resolved: other versions, or another script, resolve it anew.
$(JARS)/.resolved $(S3_JARS)/.resolved $(KAFKA)/.resolved: $(VENV)/.installed scripts/fetch_jars.py $(CACHE)/.tools
	@kind=$(if $(findstring $(KAFKA),$@),broker,$(if $(findstring $(S3_JARS),$@),s3,spark)) && \
	want=$$($(BIN)/python -c 'import sys; sys.path.insert(0, "scripts"); import fetch_jars; print(*fetch_jars.coordinates(sys.argv[1]))' $$kind) && \
	if [ "$$(cat $@ 2>/dev/null)" = "$$want" ] && [ $@ -nt scripts/fetch_jars.py ]; then touch $@; else \
		echo "resolving $$want" && $(BIN)/python scripts/fetch_jars.py $(@D) $$kind && echo "$$want" > $@; fi

$(CACHE)/spark.jsa: $(JARS)/.resolved scripts/archive_classes.py
	@echo "archiving Spark's classes" && $(BIN)/python scripts/archive_classes.py $@ $(JARS)

$(AZURITE)/.installed: scripts/azurite/package.json $(CACHE)/.tools
	@mkdir -p $(AZURITE) && cp scripts/azurite/package.json $(AZURITE)/ && echo "installing the Azure Blob emulator" && \
		npm install --prefix $(AZURITE) --no-package-lock --no-audit --no-fund --loglevel error
	@touch $@

$(KUSTO)/.installed: scripts/kusto/package.json $(CACHE)/.tools
	@mkdir -p $(KUSTO) && cp scripts/kusto/package.json $(KUSTO)/ && echo "installing Kusto's parser" && \
		npm install --prefix $(KUSTO) --no-package-lock --no-audit --no-fund --loglevel error
	@touch $@

# Everything Go fetches and builds stays in this directory.
$(CLIENTS)/.built: $(wildcard tests/server/clients/go/*)
	@command -v go >/dev/null 2>&1 || [ -x /usr/local/go/bin/go ] || { echo "setup-clients: go is missing; install Go 1.25 or newer" >&2; exit 1; }
	@mkdir -p $(CLIENTS) && echo "building the client in Go" && cd tests/server/clients/go && \
		PATH="$$PATH:/usr/local/go/bin" GOTOOLCHAIN=local GOFLAGS="-modcacherw -mod=readonly" GOPATH=$(abspath $(CLIENTS))/go \
		GOCACHE=$(abspath $(CLIENTS))/build go build -o $(abspath $(CLIENTS))/flight-go .
	@touch $@

$(CLIENTS)/java/.built: $(VENV)/.installed scripts/fetch_jars.py $(wildcard tests/server/clients/java/*)
	@command -v javac >/dev/null 2>&1 || { echo "setup-clients: javac is missing; install a JDK, 17 or newer" >&2; exit 1; }
	@echo "building the client in Java" && $(BIN)/python scripts/fetch_jars.py $(@D) flight >/dev/null && \
		javac -cp "$(@D)/*" -d $(@D) tests/server/clients/java/Client.java
	@touch $@

$(CLIENTS)/jdbc/.built: $(VENV)/.installed scripts/fetch_jars.py tests/server/clients/jdbc/Query.java
	@command -v javac >/dev/null 2>&1 || { echo "setup-clients: javac is missing; install a JDK, 17 or newer" >&2; exit 1; }
	@echo "fetching the JDBC driver of Flight SQL" && $(BIN)/python scripts/fetch_jars.py $(@D) jdbc >/dev/null && \
		javac -d $(@D) tests/server/clients/jdbc/Query.java
	@touch $@
