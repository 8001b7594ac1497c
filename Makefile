# outboxd: build, tests, demo. Start with `make demo` or `make check`; README.md explains.
VERSION := 0.1.0
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= cc
PKG_CONFIG ?= pkg-config
SANITIZE ?=
CRASH_POINTS ?=
COVERAGE ?=
PYTHON ?= /usr/bin/python3
SEEDS ?=
SUITES ?= unit simulation race integration e2e

.DEFAULT_GOAL := all

.PHONY: help
help:
	@echo "make             builds $(BUILD)/outboxd"
	@echo "make demo        shows it at work, with a PostgreSQL and a Kafka of its own; KEEP=1 leaves them running"
	@echo "make deps        installs what is missing on Debian 12 or 13"
	@echo "make install     PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make check       all tests; SUITES='$(SUITES)'; each alone: make check-unit ..."
	@echo "make check-race  the claim alone against real PostgreSQL"
	@echo "make simulate    the simulation for long: SEEDS=100000"
	@echo "make crash-matrix  relays die at every crash point, SEEDS=10 times each: 20 minutes"
	@echo "make soak        relays at work while everything around them breaks: SECONDS=3600 SEED=1"
	@echo "make bench       measures speed, latency and footprint on real servers: half an hour; BENCH=short: 5; CASES='drain', CASES=list"
	@echo "make sanitize    unit tests and simulation with the address and undefined-behaviour sanitizers"
	@echo "make sanitize-all  with the integration and end to end tests as well: long"
	@echo "make valgrind    unit tests and simulation under valgrind: long"
	@echo "make tsan        what touches librdkafka's threads, with the thread sanitizer"
	@echo "make coverage    which branches of src/core and src/relay the tests reach; too few are a failure"
	@echo "make mutants     breaks the relay on purpose: the simulation must notice; make mutants-core: the same of src/core and the unit tests"
	@echo "make lint        the house rules, cppcheck, clang-format; make format: formats"
	@echo "make docs        writes the reference of keys and the states into the documentation"
	@echo "make clean, make print-binary"

.PHONY: deps
deps:
	@tests/tools/deps

PACKAGES := libpq rdkafka yaml-0.1 jansson libmicrohttpd libcares
WARNINGS := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla
HARDENING := -fstack-protector-strong -fstack-clash-protection -fPIE \
	$(if $(filter x86_64 i%86,$(shell uname -m)),-fcf-protection) -Wformat -Werror=format-security $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
CFLAGS ?= -O2 -g
override CFLAGS += -std=c11 -D_GNU_SOURCE -Isrc $(WARNINGS) $(HARDENING) -MMD -MP \
	-DOUTBOXD_VERSION='"$(VERSION)"' $(SANITIZE) $(if $(CRASH_POINTS),-DOUTBOXD_CRASH_POINTS)
override CFLAGS += $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
LDFLAGS ?=
override LDFLAGS += -pie -Wl,-z,relro -Wl,-z,now $(SANITIZE)
LIBS = $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -lev -lm
# What the pure layers need: no PostgreSQL, no Kafka, no HTTP, no event loop. That they link without is a test.
PURE_LIBS = $(shell $(PKG_CONFIG) --libs yaml-0.1 jansson check) -lm

comma := ,
objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)/*.c))
PURE := $(call objects,src/base) $(call objects,src/config) $(call objects,src/core)
# The source; the rest of src/relay is the process around it.
RELAY_PURE := $(filter-out $(addprefix $(BUILD)/src/relay/,relay.o fleet.o shared.o reload.o pages.o),$(call objects,src/relay))
PROGRAM := $(PURE) $(call objects,src/io) $(call objects,src/relay) $(call objects,src/cli) \
	$(if $(CRASH_POINTS),$(BUILD)/tests/rig/crash.o) $(if $(COVERAGE),$(BUILD)/tests/rig/counts.o)

.PHONY: all
all: $(BUILD)/outboxd

$(BUILD)/outboxd: override LDFLAGS += $(if $(COVERAGE),-Wl$(comma)--wrap=_exit)
$(BUILD)/outboxd: $(PROGRAM)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

# libyaml's headers do not say their version.
$(BUILD)/src/cli/version.o: override CFLAGS += \
	-DYAML_COMPILED_VERSION='"$(shell $(PKG_CONFIG) --modversion yaml-0.1)"'

$(BUILD)/%.o: %.c Makefile $(if $(shell $(PKG_CONFIG) --exists $(PACKAGES) 2>/dev/null && echo y),,no-libraries)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

.PHONY: no-libraries
no-libraries:
	@echo "Libraries are missing: $(PACKAGES). 'make deps' installs them." >&2
	@false

.PHONY: print-binary
print-binary:
	@echo $(abspath $(BUILD)/outboxd)

# ---- unit tests: one program a file, linked with base + config + core + Check and nothing else
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))

$(BUILD)/tests/unit/test_%: $(BUILD)/tests/unit/test_%.o $(BUILD)/tests/unit/main.o $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS)

.PHONY: unit-tests
unit-tests: $(UNIT_TESTS)

.PHONY: check-unit
check-unit: $(UNIT_TESTS)
	@tests/run-unit $(UNIT_TESTS)

# ---- simulation: the pure part of src/relay as it is, on fakes of db.h, kafka.h and log.h
SIMULATION := $(BUILD)/tests/simulation/simulation
SIMULATION_PURE := $(filter-out $(BUILD)/src/base/log.o,$(PURE))
SIMULATION_FAKES := $(filter-out $(BUILD)/tests/simulation/replay_%,$(call objects,tests/simulation))

$(SIMULATION): $(SIMULATION_FAKES) $(SIMULATION_PURE) $(RELAY_PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS)

.PHONY: check-simulation
check-simulation: $(SIMULATION)
	@$(SIMULATION) --from $(or $(FROM),1) --seeds $(or $(SEEDS),2000)

# Histories of the fake database, recorded by the simulation, on a real PostgreSQL: the only part that needs libpq.
REPLAY_SQL := $(BUILD)/tests/simulation/replay-sql

$(REPLAY_SQL): $(addprefix $(BUILD)/tests/simulation/,replay_sql.o replay_rows.o configs.o) $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS) $(shell $(PKG_CONFIG) --libs libpq)

# Breaks each rule once: the checker must notice. MUTANTS: only those.
.PHONY: mutants
mutants: export MUTANT_BUILD = $(BUILD)
mutants: export MUTANT_COMPILE = $(CC) $(CFLAGS)
mutants: export MUTANT_LINK = $(CC) $(LDFLAGS)
mutants: export MUTANT_LIBS = $(PURE_LIBS)
mutants: export MUTANT_OBJECTS = $(SIMULATION_FAKES) $(SIMULATION_PURE) $(RELAY_PURE)
mutants: $(SIMULATION)
	@$(PYTHON) -B tests/simulation/mutants.py $(MUTANTS)

# The same for src/core and the unit tests, with the sanitizers, which notice what is not freed. MUTANTS: how many of them (200; 0: all), and the seed that draws them (1).
.PHONY: mutants-core
mutants-core:
	+@$(MAKE) $(SANITIZED) mutants-core-run

.PHONY: mutants-core-run
mutants-core-run: export MUTANT_BUILD = $(BUILD)
mutants-core-run: export MUTANT_COMPILE = $(CC) $(CFLAGS)
mutants-core-run: export MUTANT_LINK = $(CC) $(LDFLAGS)
mutants-core-run: export MUTANT_LIBS = $(PURE_LIBS)
mutants-core-run: export MUTANT_OBJECTS = $(PURE)
mutants-core-run: $(UNIT_TESTS)
	@$(PYTHON) -B tests/unit/mutants.py $(MUTANTS)

.PHONY: simulate
simulate: $(SIMULATION)
	@$(SIMULATION) --from 1000000 --seeds $(or $(SEEDS),100000)

# ---- integration and end to end: the program itself on real servers, in Python (tests/rig)
MOCKBROKER := $(BUILD)/tests/rig/mockbroker
PYTEST_JOBS ?= 3
PYTEST = cd tests && BUILD=$(abspath $(BUILD)) $(PYTHON) -B -m pytest -q -n $(PYTEST_JOBS) --dist loadgroup \
	$(if $(SANITIZE),-m 'not unsanitized')

$(MOCKBROKER): $(BUILD)/tests/rig/mockbroker.o
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

HTTPSERVER := $(BUILD)/tests/rig/httpserver

$(HTTPSERVER): $(BUILD)/tests/rig/httpserver.o $(BUILD)/src/io/http.o $(call objects,src/base)
	$(CC) $(LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs libmicrohttpd) -lev

# Preloaded into other programs, so without what would change their calls: _FORTIFY_SOURCE and sanitizers.
PRELOADED := $(addprefix $(BUILD)/tests/rig/,tally.so names.so starve.so killer.so clock.so)
$(BUILD)/tests/rig/tally.so $(BUILD)/tests/rig/starve.so: tests/rig/callers.c tests/rig/callers.h

$(PRELOADED): $(BUILD)/%.so: %.c Makefile
	@mkdir -p $(@D)
	$(CC) -O2 -g -std=c11 -D_GNU_SOURCE $(WARNINGS) -fPIC -shared -o $@ $(filter %.c,$^)

# ---- the program with crash points (src/base/crash.h), in a folder of its own
.PHONY: crash-program
crash-program:
	+@$(MAKE) BUILD=$(BUILD)/crash CRASH_POINTS=1 all

# ---- the benchmark's bare programs: the relay's statements and settings, and nothing around them
BENCH_PROGRAMS := $(addprefix $(BUILD)/tests/bench/,ceiling produce floor load)
BENCH_PARTS := $(filter-out $(addsuffix .o,$(BENCH_PROGRAMS)),$(call objects,tests/bench)) \
	$(addprefix $(BUILD)/src/io/,db.o dbsend.o pgconn.o pgdsn.o pghosts.o pgmemory.o resolve.o kafkaproducer.o kafkaconf.o kafkatopics.o)

$(BENCH_PROGRAMS): %: %.o $(BENCH_PARTS) $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lpthread

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS)

# Everything in one run on servers of its own, with stock settings. A whole one writes docs/performance.md.
.PHONY: bench
bench: all bench-programs
	@tests/tools/deps build demo
	@cd tests && BUILD=$(abspath $(BUILD)) BENCH='$(BENCH)' CASES='$(CASES)' $(PYTHON) -B -m bench

# ---- integration tests in C: io/db, io/listener and cli/pgblocking on the PostgreSQL that OUTBOXD_TEST_DSN names (a superuser)
IO_PG := $(addprefix $(BUILD)/src/,$(addprefix io/,db.o dbpool.o dbsend.o listener.o pgconn.o pgdsn.o pghosts.o pgmemory.o resolve.o) cli/pgblocking.o)
INTEGRATION_TESTS := $(patsubst tests/integration/%.c,$(BUILD)/tests/integration/%,$(wildcard tests/integration/test_*.c))

$(BUILD)/tests/integration/test_%: $(BUILD)/tests/integration/test_%.o $(BUILD)/tests/integration/pgrig.o \
		$(BUILD)/tests/integration/proxy.o $(BUILD)/tests/unit/main.o $(IO_PG) $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS) $(shell $(PKG_CONFIG) --libs libpq libcares) -lev

# Only for the thread sanitizer
C11THREADS := $(if $(findstring thread,$(SANITIZE)),$(BUILD)/tests/rig/c11threads.o)

# Those of io/kafka bring their own mock cluster
IO_KAFKA := $(filter $(BUILD)/src/io/kafka%,$(call objects,src/io))
KAFKA_TESTS := $(addprefix $(BUILD)/tests/integration/,test_kafka test_kafkalimits test_kafkaconf test_verdict_codes)

$(KAFKA_TESTS): $(BUILD)/tests/integration/test_%: $(BUILD)/tests/integration/test_%.o \
		$(BUILD)/tests/integration/kafkabench.o $(BUILD)/tests/unit/main.o $(IO_KAFKA) $(PURE) $(C11THREADS)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS) $(shell $(PKG_CONFIG) --libs rdkafka) -lev

# The statements of core/sql, without io/db
$(addprefix $(BUILD)/tests/integration/,test_sql_server test_sql_plans test_sql_delete test_sql_await test_sql_commands): %: %.o $(BUILD)/tests/integration/sqlbench.o \
		$(addprefix $(BUILD)/tests/race/,server.o command.o) $(BUILD)/tests/unit/main.o $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS) $(shell $(PKG_CONFIG) --libs libpq) -lpthread

$(BUILD)/tests/integration/test_sdnotify: $(addprefix $(BUILD)/,tests/integration/test_sdnotify.o tests/unit/main.o src/io/sdnotify.o) $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS)

# A library that loses messages
$(BUILD)/tests/integration/test_kafka: override LDFLAGS += -Wl,--wrap=rd_kafka_produceva

.PHONY: check-kafka
check-kafka: $(KAFKA_TESTS)
	@$(PYTEST) integration/test_kafka_programs.py $(PYTEST_ARGS)

.PHONY: integration-tests
integration-tests: $(INTEGRATION_TESTS)

.PHONY: check-integration
check-integration: all $(MOCKBROKER) $(HTTPSERVER) $(PRELOADED) unit-tests integration-tests bench-programs $(SIMULATION) $(REPLAY_SQL)
	@$(PYTEST) integration $(PYTEST_ARGS)

.PHONY: check-e2e
check-e2e: all crash-program $(MOCKBROKER) $(PRELOADED) kafka-jars debezium-jars
	@$(PYTEST) e2e $(PYTEST_ARGS)

# Relays die at every crash point, at the passages that SEEDS dice choose. check-e2e runs the first seed.
.PHONY: crash-matrix
crash-matrix: export CRASH_SEEDS = $(or $(SEEDS),10)
crash-matrix: all crash-program $(MOCKBROKER) kafka-jars
	@$(PYTEST) e2e/test_crash.py -k 'crash_point' $(PYTEST_ARGS)

# Everything breaks at random, for so long, with a dice of that seed.
.PHONY: soak
soak: all crash-program kafka-jars
	@cd tests && BUILD=$(abspath $(BUILD)) $(PYTHON) -B -m rig.soak $(or $(SECONDS),3600) $(or $(SEED),1)

.PHONY: kafka-jars debezium-jars
kafka-jars:
	@cd tests && $(PYTHON) -B -m rig.kafka
debezium-jars: kafka-jars
	@cd tests && $(PYTHON) -B -m rig.debezium

# ---- the statements of core/sql on a real server, against everybody who may write to the table at once
RACE := $(BUILD)/tests/race/race

$(RACE): $(call objects,tests/race) $(PURE)
	$(CC) $(LDFLAGS) -o $@ $^ $(PURE_LIBS) $(shell $(PKG_CONFIG) --libs libpq) -lpthread

.PHONY: check-race
check-race: $(RACE)
	@$(PYTEST) race -n 0 $(PYTEST_ARGS)

# ---- all of them
.PHONY: check
check: deps
	+@tests/run-check $(SUITES)

# With the sanitizers in, gcc no longer knows a number's range and warns of buffers that are large enough.
SANITIZED = BUILD=$(BUILD)/sanitize CFLAGS='-O1 -g -fno-omit-frame-pointer' \
	SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all -Wno-format-truncation'

.PHONY: sanitize
sanitize:
	+@$(MAKE) $(SANITIZED) SEEDS=$(or $(SEEDS),200) check-unit check-simulation check-kafka check-leaks

# Everything in Python, but what is marked unsanitized. tests/rig/*.so are preloaded before the sanitizer.
.PHONY: sanitize-all
sanitize-all: export ASAN_OPTIONS = quarantine_size_mb=16:verify_asan_link_order=0
sanitize-all: sanitize
	+@$(MAKE) $(SANITIZED) check-integration check-race check-e2e

# What the sanitizers do not see: bytes that were never written, and what a library is given.
VALGRIND := valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite

.PHONY: valgrind
valgrind: $(UNIT_TESTS) $(SIMULATION)
	@CK_DEFAULT_TIMEOUT=900 tests/run-unit --with '$(VALGRIND)' $(UNIT_TESTS)
	@$(VALGRIND) $(SIMULATION) --seeds $(or $(SEEDS),20)

# Our code against librdkafka's threads; that a race would be found is tried first.
.PHONY: tsan
tsan: export TSAN_OPTIONS = suppressions=$(abspath tests/tsan.supp)
tsan:
	+@$(MAKE) BUILD=$(BUILD)/tsan CFLAGS='-O1 -g' SANITIZE='-fsanitize=thread -Wno-format-truncation' check-planted-race check-threads

# All is so slow that some tests miss their moment: what counts is what the sanitizer says.
.PHONY: check-threads
check-threads: THREADS_LOG = $(abspath $(BUILD))/threads.log
check-threads: $(KAFKA_TESTS)
	@$(PYTEST) integration/test_kafka_programs.py $(PYTEST_ARGS) >$(THREADS_LOG) 2>&1; \
	if grep -q '^test_kafka_programs: [1-9]' $(THREADS_LOG) && ! grep -qE 'ThreadSanitizer|Received signal' $(THREADS_LOG); \
	then echo 'threads: 1 passed, 0 failed'; \
	else cat $(THREADS_LOG); echo 'threads: 0 passed, 1 failed'; false; fi

PLANTED_RACE := $(BUILD)/tests/rig/plantedrace

$(PLANTED_RACE): $(BUILD)/tests/rig/plantedrace.o $(C11THREADS)
	$(CC) $(LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs rdkafka)

.PHONY: check-planted-race
check-planted-race: $(PLANTED_RACE)
	@if $(PLANTED_RACE) 2>$(PLANTED_RACE).log || ! grep -q 'data race.*plantedrace.c' $(PLANTED_RACE).log; \
	then cat $(PLANTED_RACE).log; echo 'planted-race: 0 passed, 1 failed'; false; \
	else echo 'planted-race: 1 passed, 0 failed'; fi

# ---- which branches of src/core and src/relay are reached
# By the unit tests and the simulation, and what needs the program itself by tests of that. What they kill as a part of the
# test writes no counts. An assertion's failure is no branch to be reached; nor is what the macros of
# uthash expand to. Histories with a trace are for the log lines' sake.
COVERED_TESTS := integration/test_pages.py integration/test_status.py integration/test_reload.py integration/test_supervisor.py \
	integration/test_http.py integration/test_edges.py e2e/test_stop.py e2e/test_tables.py

GCOVR = gcovr --root . --object-directory $(BUILD) $(BUILD) --branches --print-summary --exclude-branches-by-pattern '.*HASH_[A-Z_]+ ?\(.*'

.PHONY: coverage
coverage:
	+@$(MAKE) BUILD=$(BUILD)/coverage CFLAGS='-O0 -g -DNDEBUG -Wno-unused' SANITIZE=--coverage COVERAGE=1 coverage-report

.PHONY: coverage-report
coverage-report: all $(UNIT_TESTS) $(SIMULATION) $(MOCKBROKER) $(HTTPSERVER) $(BUILD)/tests/integration/test_sdnotify kafka-jars
	@find $(BUILD) -name '*.gcda' -delete
	@tests/run-unit $(UNIT_TESTS) | tail -n 1
	@$(SIMULATION) --seeds $(or $(SEEDS),5000) | tail -n 1
	@$(SIMULATION) --seeds 30 --trace >/dev/null
	@COVERAGE=1 $(PYTEST) $(COVERED_TESTS)
	@$(GCOVR) --filter src/core/ --fail-under-branch 95
	@$(GCOVR) --filter src/relay/ --fail-under-branch 90

# What is refused again and again, by PostgreSQL and by Kafka, in the program itself, and reloads: for the leak checker above.
.PHONY: check-leaks
check-leaks: export ASAN_OPTIONS = quarantine_size_mb=1
check-leaks: all $(MOCKBROKER) $(BUILD)/tests/integration/test_dbleaks
	@$(PYTEST) integration/test_pg_programs.py integration/test_memory.py integration/test_reload.py -k 'dbleaks or F046 or test_reload'

# ---- to look at and to use
.PHONY: demo
demo:
	@tests/tools/deps build demo
	+@$(MAKE) -sq all 2>/dev/null || echo "Building $(BUILD)/outboxd"
	+@$(MAKE) -s $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2) all
	@cd tests && BUILD=$(abspath $(BUILD)) KEEP=$(KEEP) $(PYTHON) -B -m demo

.PHONY: install
install: all
	install -D -m 755 $(BUILD)/outboxd $(DESTDIR)$(PREFIX)/bin/outboxd
	install -D -m 644 conf/outboxd.yaml $(DESTDIR)$(PREFIX)/share/doc/outboxd/examples/outboxd.yaml
	$(foreach page,$(wildcard docs/man/*.[158]),install -D -m 644 $(page) \
		$(DESTDIR)$(PREFIX)/share/man/man$(patsubst .%,%,$(suffix $(page)))/$(notdir $(page));)

# ---- style
C_FILES = $(shell find src tests -name '*.[ch]')

.PHONY: format
format:
	clang-format -i $(C_FILES)

# ---- what the documentation has from the program itself (a unit test sees to the reference)
.PHONY: docs
docs: all
	@$(BUILD)/outboxd config --reference | tests/tools/embed reference docs/configuration.md
	@$(BUILD)/outboxd states | tests/tools/embed states README.md
	@$(BUILD)/outboxd check --reference | tests/tools/embed findings docs/check.md
	@cd tests && $(PYTHON) -B -m rig.crashscenarios | tools/embed 'crash points' ../docs/guarantees.md

.PHONY: lint
lint:
	@$(PYTHON) -B tests/lint/lint.py
	@cd tests && $(PYTHON) -B -m pytest -q lint

.PHONY: clean
clean:
	rm -rf $(BUILD)

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
