# Everything the project does, by name. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BASE_PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PYTHON := $(VENV)/bin/python
export PYSPARK_PYTHON = $(CURDIR)/$(VENV)/bin/python
export PYSPARK_DRIVER_PYTHON = $(PYSPARK_PYTHON)
export SPARK_LOCAL_IP = 127.0.0.1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
WORKERS ?= -n 3 --dist loadfile --no-loadscope-reorder  # worker processes for 2 cores, as many tests wait; a test file at a time, the longest first; WORKERS= for one

##@ Use
.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_.-]+:.*##/ {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(VENV)/.installed ## make the virtual environment (done by every target that needs it)
$(VENV)/.installed: pyproject.toml
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "twostage needs Python 3.11 or newer; set BASE_PYTHON=/path/to/python3.11"; exit 1; }
	$(BASE_PYTHON) -m venv $(VENV)
	$(PYTHON) -m pip install -q -U "pip>=25.1"
	$(PYTHON) -m pip install -q -e . --group test --group lint
	$(PYTHON) -m pip install -q --target $(VENV)/duckdb-tpc --group duckdb-tpc
	@touch $@

.PHONY: java
java:
	@JAVA="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; command -v "$$JAVA" >/dev/null || \
		{ echo "Spark needs Java 17 or newer, and there is no java here. Install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."; exit 1; }; \
	VERSION=$$("$$JAVA" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1); \
	[ "$${VERSION:-0}" -ge 17 ] || { echo "Spark needs Java 17 or newer; this is Java $$VERSION. Set JAVA_HOME to a newer one."; exit 1; }

.PHONY: demo
demo: install java ## a local warehouse, three queries through Spark, each with its report
	$(PYTHON) examples/demo.py

.PHONY: advise
advise: install java ## the demo's warehouse, a day of queries: what to index, built and checked
	$(PYTHON) examples/advise.py

##@ Check
.PHONY: lint
lint: install lint-java ## ruff: rules and format; imports run one way, without cycles; the planner's Java
	$(VENV)/bin/ruff check --no-cache .  # the cache is stale after a module moves
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-cache

# Off in javac: rawtypes, unchecked and cast, because Janino, which compiles this in the driver, ignores type arguments:
# collections are raw and their elements are cast, though javac knows better for Scala's; path, because the manifests
# of Spark's own jars name jars that PySpark does not include.
PLANNER_LINT := all,-rawtypes,-unchecked,-cast,-path
.PHONY: lint-java
lint-java: install ## javac -Xlint over the planner's Java, against each PySpark that is here (CI=true: all three, or it fails)
	@JAVAC="$${JAVA_HOME:+$$JAVA_HOME/bin/}javac"; \
	missing() { if [ "$$CI" = true ]; then echo "$$1"; exit 1; else echo "Skipped: $$1"; fi; }; \
	command -v "$$JAVAC" >/dev/null || { missing "the planner's Java is not checked without javac. Install a JDK, 17 or newer (Debian: apt-get install openjdk-17-jdk-headless), or set JAVA_HOME."; exit; }; \
	CLASSES=$$(mktemp -d); trap 'rm -rf "$$CLASSES"' EXIT; \
	for SPARK in 4.1:.venv-4.1:spark41 4.2:.venv-4.2:spark41 4.3:$(VENV):spark43; do \
		IFS=: read -r VERSION FOLDER CATALOG <<< "$$SPARK"; \
		JARS=$$(echo $$FOLDER/lib/python3*/site-packages/pyspark/jars); \
		[ -d "$$JARS" ] || { missing "the planner's Java against PySpark $$VERSION: make $$FOLDER/.installed"; continue; }; \
		echo "javac -Xlint:$(PLANNER_LINT) -Werror, PySpark $$VERSION"; \
		"$$JAVAC" -Xlint:$(PLANNER_LINT) -Werror -XDsuppressNotes -proc:none --release 17 -cp "$$JARS/*" -d "$$CLASSES" \
			connector/twostage/planner/*.java connector/twostage/planner/$$CATALOG/*.java || exit 1; \
	done

.PHONY: hooks
hooks: install ## check the same before each commit, by pre-commit (.pre-commit-config.yaml)
	$(VENV)/bin/pre-commit install

.PHONY: format
format: install ## ruff: fix what can be fixed
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: types
types: install ## mypy --strict
	$(VENV)/bin/mypy

NIGHTLY := $(filter 1,$(TWOSTAGE_FULL))

.PHONY: test
test: install java $(VENV)/spark.jsa ## all tests, real Spark included (set TWOSTAGE_TABLES for the tables of other writers)
	TWOSTAGE_JIT=always $(PYTHON) -m pytest -q --durations 30 $(WORKERS) $(if $(NIGHTLY),--timeout 7200)

.PHONY: test-all
test-all: install .venv-4.1/.installed .venv-4.2/.installed java ## nightly: all tests at their full sizes, on each version of Spark, interop, and coverage; hours
	$(MAKE) TWOSTAGE_FULL=1 test
	$(MAKE) TWOSTAGE_FULL=1 test-spark-4.1
	$(MAKE) TWOSTAGE_FULL=1 test-spark-4.2
	$(MAKE) TWOSTAGE_FULL=1 interop
	$(MAKE) coverage

.PHONY: test-core
test-core: install ## the tests that need no Spark
	$(PYTHON) -m pytest -q --ignore=tests/spark --ignore=tests/predicates

.PHONY: coverage
coverage: install ## branches that the tests without Spark take, by package; fails below 92 % of reading, deletes, planning, predicates (TESTS="folders")
	$(PYTHON) benchmarks/branch_coverage.py $(TESTS)

.PHONY: test-spark-4.1 test-spark-4.2
OLDER_SPARK = -m pytest -q $(WORKERS) $(if $(NIGHTLY),--timeout 7200,-m "not newest_spark") tests/spark
test-spark-4.1: .venv-4.1/.installed java .venv-4.1/spark.jsa ## the Spark tests that depend on its version, on PySpark 4.1.4
	PYSPARK_PYTHON=$(CURDIR)/.venv-4.1/bin/python .venv-4.1/bin/python $(OLDER_SPARK)
test-spark-4.2: .venv-4.2/.installed java .venv-4.2/spark.jsa ## the Spark tests that depend on its version, on PySpark 4.2.1
	PYSPARK_PYTHON=$(CURDIR)/.venv-4.2/bin/python .venv-4.2/bin/python $(OLDER_SPARK)

.venv-4.1/.installed: SPARK = 4.1.4
.venv-4.2/.installed: SPARK = 4.2.1
.venv-4.1/.installed .venv-4.2/.installed: pyproject.toml
	$(BASE_PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q -U "pip>=25.1"
	$(@D)/bin/python -m pip install -q -e . "pyspark[connect]==$(SPARK)" "pandas<3" "pyiceberg[sql-sqlite,hive]==0.12.0" pytest pytest-randomly pytest-timeout pytest-xdist hypothesis duckdb
	$(@D)/bin/python -m pip install -q --target $(@D)/duckdb-tpc --group duckdb-tpc
	@touch $@

$(VENV)/spark.jsa .venv-4.1/spark.jsa .venv-4.2/spark.jsa: %/spark.jsa: %/.installed tests/shared/spark_archive.py
	PYSPARK_PYTHON=$(CURDIR)/$*/bin/python PYSPARK_DRIVER_PYTHON=$(CURDIR)/$*/bin/python $*/bin/python tests/shared/spark_archive.py $@

.PHONY: differential
differential: install ## 5,000 random (table, query) pairs against brute force (TWOSTAGE_SEED, TWOSTAGE_PAIRS)
	TWOSTAGE_JIT=always TWOSTAGE_PAIRS=$${TWOSTAGE_PAIRS:-5000} $(PYTHON) -m pytest -q -s --timeout 5400 tests/differential

.PHONY: predicates
predicates: install java ## 2,000 generated predicates, twostage against Spark's own evaluation (TWOSTAGE_SEED, TWOSTAGE_PREDICATES)
	TWOSTAGE_PREDICATES=$${TWOSTAGE_PREDICATES:-2000} $(PYTHON) -m pytest -q --timeout 5400 tests/predicates

.PHONY: aggregates
aggregates: install java ## 2,000 random aggregate queries: answered from metadata and indexes, read, and Spark over the same rows (TWOSTAGE_SEED, TWOSTAGE_AGGREGATES)
	TWOSTAGE_AGGREGATES=$${TWOSTAGE_AGGREGATES:-2000} $(PYTHON) -m pytest -q --timeout 7200 tests/spark/test_spark_aggregate_queries.py

.PHONY: fuzz
fuzz: install ## damaged files of every kind (SEED, N mutations and half as many bit flips); prints each failure
	$(PYTHON) tests/fuzz/fuzzer.py --seed $${SEED:-1} --cases $${N:-2000}

.PHONY: findings
findings: .venv-4.1/.installed java ## where Iceberg-Spark 1.12.0 differs, shown on Iceberg itself (TEST=07 picks a finding)
	.venv-4.1/bin/python -m pytest -q tests/findings -k "$(if $(TEST),finding_$(TEST),test)"
	PYSPARK_PYTHON=$(CURDIR)/.venv-4.1/bin/python .venv-4.1/bin/python -m pytest -q --timeout 1200 interop/test_findings.py -k "$(if $(TEST),finding_$(TEST),test)"

.PHONY: interop-jars
interop-jars: .venv-4.1/.installed java ## fetch what interop needs from Maven Central (interop itself does, too)
	PYSPARK_PYTHON=$(CURDIR)/.venv-4.1/bin/python .venv-4.1/bin/python interop/resolver.py

.PHONY: interop
interop: .venv-4.1/.installed java .venv-4.1/spark.jsa ## tables written by Iceberg's own Spark runtime, compared with its answers; the named cases, written by it
	PYSPARK_PYTHON=$(CURDIR)/.venv-4.1/bin/python .venv-4.1/bin/python -m pytest -q $(WORKERS:loadfile=loadgroup) --timeout $(if $(NIGHTLY),7200,1200) interop
	TWOSTAGE_WRITER=Iceberg-Spark PYTHONPATH=$(CURDIR)/interop PYSPARK_PYTHON=$(CURDIR)/.venv-4.1/bin/python .venv-4.1/bin/python -m pytest -q -p iceberg_writer $(WORKERS:loadfile=load) --timeout $(if $(NIGHTLY),7200,1200) tests/cases

##@ Measure
.PHONY: scoreboard
scoreboard: install java ## the tests behind each row of docs/scoreboard.md, which it writes (FULL=1: nightly sizes; ROWS="R4 R9")
	TWOSTAGE_FULL=$(FULL) $(PYTHON) benchmarks/scoreboard.py $(ROWS)

.PHONY: bench
bench: export STORE := $(STORE)
bench: .venv-bench/.installed java ## twostage against Iceberg-Spark, Spark, DuckDB, Polars and DataFusion: docs/benchmarks.md (SIZE=small|full|huge; PAGES="needles tpch", PAGES=tpcds; WAREHOUSE=folder; STORE="--latencies 100 --threads 8" for PAGES=object-store)
	PYSPARK_PYTHON=$(CURDIR)/.venv-bench/bin/python .venv-bench/bin/python benchmarks/bench.py --size $(or $(SIZE),full) $(if $(WAREHOUSE),--warehouse $(WAREHOUSE)) $(PAGES)

.PHONY: bench-against
bench-against: .venv-bench/.installed java ## this code against that of another commit, query by query (COMMIT=…; BENCH="--rows 300000 --repeats 5")
	PYSPARK_PYTHON=$(CURDIR)/.venv-bench/bin/python .venv-bench/bin/python benchmarks/against.py $(COMMIT) $(BENCH)

.PHONY: bench-page
bench-page: .venv-bench/.installed ## rewrite docs/benchmarks.md from the existing figures
	.venv-bench/bin/python benchmarks/bench.py --page-only --size $(or $(SIZE),full)

.venv-bench/.installed: pyproject.toml
	$(BASE_PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q -U "pip>=25.1"
	$(@D)/bin/python -m pip install -q -e . --group bench
	$(@D)/bin/python -m pip install -q --target $(@D)/duckdb-iceberg --group duckdb-iceberg
	$(@D)/bin/python -m pip install -q --target $(@D)/duckdb-httpfs --group duckdb-httpfs
	$(@D)/bin/python -m pip install -q --target $(@D)/duckdb-tpc --group duckdb-tpc
	@touch $@

.PHONY: bench-filters
bench-filters: install ## stage one's parts, in one process: IN lists, text, dictionary codes, normal forms
	$(PYTHON) benchmarks/filters.py $(BENCH)

.PHONY: bench-indexes
bench-indexes: install ## what indexes cost to build and to read: BENCH="columns 300000" or BENCH="files 2000"
	$(PYTHON) benchmarks/index_costs.py $(or $(BENCH),columns 300000)

.PHONY: bench-index-stage-one
bench-index-stage-one: install ## one data file, no Spark: stage one by an index against a plain column, and building against reading (BENCH=rows)
	$(PYTHON) benchmarks/index_stage_one.py $(BENCH)

.PHONY: bench-index-kinds
bench-index-kinds: install ## one data file, no Spark: what each kind of index takes and saves of columns of many values (BENCH="1000000 Zipf")
	$(PYTHON) benchmarks/index_kinds.py $(BENCH)

.PHONY: bench-index-answers
bench-index-answers: .venv-bench/.installed java ## counts and groups that indexes answer, compared with reading and Iceberg-Spark, 3 M rows (BENCH="FOLDER [rows] [columns] [repeats]")
	PYSPARK_PYTHON=$(CURDIR)/.venv-bench/bin/python .venv-bench/bin/python benchmarks/index_answers.py $(or $(BENCH),build/index-answers)

.PHONY: bench-advisor
bench-advisor: install ## the advisor over a query log of a million scans (BENCH="--scans 20000"): seconds and memory
	$(PYTHON) benchmarks/advisor_scale.py $(BENCH)

.PHONY: bench-advisor-events
bench-advisor-events: install ## the advisor over a Spark event log of 100,000 queries (BENCH="--queries 20000"): seconds and memory
	$(PYTHON) benchmarks/advisor_events.py $(BENCH)

.PHONY: bench-advisor-collect
bench-advisor-collect: install java ## advise collect --spark over a table of 100,000 data files (BENCH="--files 5000"): seconds and memory
	PYSPARK_PYTHON=$(CURDIR)/$(PYTHON) $(PYTHON) benchmarks/advisor_collect.py $(BENCH)

.PHONY: bench-advisor-workload
bench-advisor-workload: install ## whether the advisor's indexes are the best ones: generated queries, all sets of indexes measured (BENCH="--measured 1500": of the 5,000, those; --seed 2)
	$(PYTHON) benchmarks/advisor_workload.py $(BENCH)

.PHONY: bench-advisor-tpcds
bench-advisor-tpcds: .venv-bench/.installed java ## whether the advisor's predictions hold for TPC-DS: its queries logged, indexed, replayed (WAREHOUSE=folder)
	PYSPARK_PYTHON=$(CURDIR)/.venv-bench/bin/python .venv-bench/bin/python benchmarks/advisor_tpcds.py --size $(or $(SIZE),full) --warehouse $(or $(WAREHOUSE),benchmarks/data)/$(or $(SIZE),full)-tpcds $(BENCH)

.PHONY: bench-conditions
bench-conditions: install ## the condition cache: off, filling it, answered by it, in one process
	$(PYTHON) benchmarks/conditions.py $(BENCH)

.PHONY: bench-metadata
bench-metadata: install ## a million data files in manifests: count, min, max, LIMIT, a needle (BENCH=--files=100000)
	$(PYTHON) benchmarks/metadata.py $(BENCH)

.PHONY: bench-top
bench-top: install java ## ORDER BY ts DESC LIMIT 100 through Spark, with top-n and without (BENCH=--rows=500000)
	$(PYTHON) benchmarks/first_rows.py $(BENCH)

.PHONY: bench-deletes
bench-deletes: ## equality deletes at scale: short for make bench PAGES=equality-deletes
	$(MAKE) bench PAGES=equality-deletes

##@ Ship
.PHONY: docs
docs: .venv-docs/.installed ## the documentation as a site, in site/: every page, link and anchor checked
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

.PHONY: docs-tables
docs-tables: install ## write the tables of options and counters into the pages, from the code
	$(PYTHON) docs/tables.py

.PHONY: docs-serve
docs-serve: .venv-docs/.installed ## the same on http://127.0.0.1:8000, rebuilt whenever a page changes
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs serve --strict --dev-addr 127.0.0.1:8000

.venv-docs/.installed: pyproject.toml
	$(BASE_PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q -U "pip>=25.1"
	$(@D)/bin/python -m pip install -q --group docs
	@touch $@

.PHONY: build
build: .venv-release/.installed ## wheel and source distribution into dist/
	.venv-release/bin/python -m build

.PHONY: release
release: .venv-release/.installed java ## build and check both, try the wheel in an empty environment; says what to upload, uploads nothing
	.venv-release/bin/python release/release.py

.PHONY: lock
lock: install ## rewrite pylock.toml: what `make release` tries the wheel with, by hash
	$(PYTHON) release/lock.py

.venv-release/.installed: pyproject.toml
	$(BASE_PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q -U "pip>=25.1"
	$(@D)/bin/python -m pip install -q --group release
	@touch $@

.PHONY: clean
clean: ## remove what the targets made
	rm -rf .venv .venv-4.1 .venv-4.2 .venv-bench .venv-docs .venv-release site dist build demo-warehouse benchmarks/results benchmarks/data .pytest_cache .mypy_cache .ruff_cache .hypothesis
