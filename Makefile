# outboxd: build, tests, demo. Start with `make demo` or `make check`; README.md explains.
VERSION := 0.1.0
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= cc
PKG_CONFIG ?= pkg-config
SANITIZE ?=

PACKAGES := libpq rdkafka yaml-0.1 jansson libmicrohttpd
WARNINGS := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla
HARDENING := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE \
	-Wformat -Werror=format-security $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
CFLAGS ?= -O2 -g
override CFLAGS += -std=c11 -D_GNU_SOURCE -Isrc $(WARNINGS) $(HARDENING) -MMD -MP \
	-DOUTBOXD_VERSION='"$(VERSION)"' $(SANITIZE)
override CFLAGS += $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
LDFLAGS ?=
override LDFLAGS += -pie -Wl,-z,relro -Wl,-z,now $(SANITIZE)
LIBS = $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -lev -lm
# What the pure layers need: no PostgreSQL, no Kafka, no HTTP, no event loop. That they link without is a test.
PURE_LIBS = $(shell $(PKG_CONFIG) --libs yaml-0.1 jansson check) -lm

objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)/*.c))
PURE := $(call objects,src/base) $(call objects,src/config) $(call objects,src/core)
RELAY_PURE := $(filter-out $(BUILD)/src/relay/relay.o,$(call objects,src/relay))
PROGRAM := $(PURE) $(call objects,src/io) $(call objects,src/relay) $(call objects,src/cli)

.PHONY: all
all: $(BUILD)/outboxd

$(BUILD)/outboxd: $(PROGRAM)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

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

# ---- style
C_FILES = $(shell find src tests -name '*.[ch]')

.PHONY: format
format:
	clang-format -i $(C_FILES)

.PHONY: clean
clean:
	rm -rf $(BUILD)

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
