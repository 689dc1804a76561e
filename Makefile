# Nightshift. `make` builds, `make demo` shows, `make check` tests. Wildcards throughout: a new file needs no line here.
#   CUDA=0|1       build the CUDA plugin (default: where nvcc and its libraries are found)
#   SAN=address|undefined    build with a sanitizer (in a build directory of its own)
#   BUILD=DIR      where objects go         PREFIX, DESTDIR, PROGRAM_PREFIX for install
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL = /bin/bash

CC = gcc
SAN =
BUILD = build$(if $(SAN),-$(SAN))
BINDIR = $(if $(SAN),$(BUILD)/bin,bin)
PREFIX = /usr/local
PROGRAM_PREFIX =

CPPFLAGS_AUTO = -Ilib -Itests -D_GNU_SOURCE -DNIGHTSHIFT_VERSION='"$(VERSION)"'
CFLAGS_AUTO = -std=c11 -O2 -g -fno-math-errno -fno-trapping-math -ffp-contract=off -fopenmp \
	-Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
LDFLAGS_AUTO = -fopenmp $(if $(SAN),-fsanitize=$(SAN))
LDLIBS = -lconfig -lpng -ljpeg -larchive -ljansson -lnettle -lz -lm -lpthread -ldl
VERSION = 0.1

LIB_SOURCES = $(wildcard lib/*/*.c)
LIB_OBJECTS = $(LIB_SOURCES:%.c=$(BUILD)/%.o)
PROGRAM_SOURCES = $(wildcard bin/*.c)
PROGRAMS = $(PROGRAM_SOURCES:bin/%.c=$(BINDIR)/%)
TEST_SOURCES = $(wildcard tests/*.c)
TESTS = $(TEST_SOURCES:tests/%.c=$(BUILD)/tests/%)

SHIMS = $(patsubst tests/shim/%.c,$(BUILD)/tests/%.so,$(wildcard tests/shim/*.c))

all: $(PROGRAMS)
tests: $(TESTS) $(SHIMS)

$(BUILD)/libnightshift.a: $(LIB_OBJECTS)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_AUTO) $(CPPFLAGS) $(CFLAGS_AUTO) $(CFLAGS_$(*F)) $(CFLAGS) -MMD -MP -c $< -o $@
$(PROGRAMS): $(BINDIR)/%: $(BUILD)/bin/%.o $(BUILD)/libnightshift.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_AUTO) $(LDFLAGS) $^ $(LDLIBS) -o $@
$(TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libnightshift.a
	$(CC) $(LDFLAGS_AUTO) $(LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/tests/%.so: tests/shim/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-nonnull-compare -fPIC -shared $< -o $@ -ldl -lpthread
.SECONDARY:

clean:
	rm -rf build build-* $(PROGRAM_SOURCES:%.c=%)
.PHONY: all tests clean

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
