# Nightshift. `make` builds, `make demo` shows, `make check` tests. Wildcards throughout: a new file needs no line here.
#
#   make [all]       the programs, in bin/                make check       all tests (README: "Testing")
#   make demo        trains small models (TASK=depth|classify|all)   make check-long  random kills, long fuzzing, valgrind
#   make install     PREFIX= DESTDIR= PROGRAM_PREFIX=     make bench       our figures beside a peer's
#   make bench-ops   single operations beside a peer
#   make uninstall   the same variables                   make fuzz        libFuzzer (clang); FUZZ_SECONDS=60
#
#   MPI=0|1          the plugin for several processes (default: where mpicc is)   MPICC=mpicc
#   FILM=0|1         the plugin for video files (default: where FFmpeg's libraries are)
#   CUDA=0|1         the CUDA plugin (default: where its parts are found)       CUDA_HOME=/usr/local/cuda
#   SAN=address      or undefined, or address,undefined: a sanitized build in a directory of its own
#   V=1              the commands in full; else one word and the target
#   CC, CFLAGS, CPPFLAGS, LDFLAGS, LDLIBS_EXTRA as usual; BUILD=DIR for the objects
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL = /bin/bash
VERSION = 0.1

CC = gcc
SAN =
comma = ,
BUILD = build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
BINDIR = $(if $(filter build,$(BUILD)),bin,$(BUILD)/bin)
PREFIX = /usr/local
PROGRAM_PREFIX =
FUZZ_SECONDS = 60
TASK = depth

CPPFLAGS_AUTO = -Ilib -Itests -D_GNU_SOURCE -DNIGHTSHIFT_VERSION='"$(VERSION)"'
CFLAGS_AUTO = -std=c11 -O2 -g -fno-math-errno -fno-trapping-math -ffp-contract=off -fopenmp-simd -pthread \
	-Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
LDFLAGS_AUTO = -pthread $(if $(SAN),-fsanitize=$(SAN))
LDLIBS = -lconfig -lpng -ljpeg -larchive -ljansson -lnettle -lz -lm -ldl

LIB_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/*/*.c))
NAMES = $(patsubst bin/%.c,%,$(wildcard bin/*.c))
PROGRAMS = $(NAMES:%=$(BINDIR)/%)
SUPPORT_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*.c tests/tools/*.c tests/measure/*.c))
SHIMS = $(patsubst tests/shim/%.c,$(BUILD)/tests/%.so,$(wildcard tests/shim/*.c))
# The modules that read what others wrote, and nothing that takes long to compile under the sanitizers.
FUZZ_SOURCES = $(wildcard lib/base/*.c lib/file/*.c lib/config/*.c lib/run/*.c lib/data/*.c tests/parsers/*.c)
CUDA_SOURCES = $(wildcard cuda/*.cu)

run = @$(if $(V),,echo "$1 $@" &&) $(if $(V),set -x &&)

all: $(PROGRAMS) mpi film $(if $(CUDA_SOURCES),cuda)
tests: $(TESTS) $(SHIMS)

$(BUILD)/libnightshift.a: $(LIB_OBJECTS)
	@rm -f $@
	$(call run,ar) ar rcs $@ $^
$(BUILD)/tests/support.a: $(SUPPORT_OBJECTS)
	@rm -f $@
	$(call run,ar) ar rcs $@ $^
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call run,compile) $(CC) $(CPPFLAGS_AUTO) $(CPPFLAGS) $(CFLAGS_AUTO) $(CFLAGS_$(*F)) $(CFLAGS) -MMD -MP -c $< -o $@
$(PROGRAMS): $(BINDIR)/%: $(BUILD)/bin/%.o $(BUILD)/libnightshift.a
	@mkdir -p $(@D)
	$(call run,link) $(CC) $(LDFLAGS_AUTO) $(LDFLAGS) $^ $(LDLIBS) $(LDLIBS_EXTRA) -o $@
$(filter-out %/fuzz,$(TESTS)): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/support.a $(BUILD)/libnightshift.a
	$(call run,link) $(CC) $(LDFLAGS_AUTO) $(LDFLAGS) $^ $(LDLIBS) $(LDLIBS_EXTRA) -o $@
$(BUILD)/tests/fuzz: $(patsubst %.c,$(BUILD)/%.o,tests/fuzz.c $(filter-out %/libfuzzer.c,$(FUZZ_SOURCES)))
	$(call run,link) $(CC) $(LDFLAGS_AUTO) $(LDFLAGS) $^ $(LDLIBS) $(LDLIBS_EXTRA) -o $@
$(BUILD)/tests/%.so: tests/shim/%.c Makefile
	@mkdir -p $(@D)
	$(call run,link) $(CC) -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -Wno-nonnull-compare -fPIC -shared $< -o $@ -ldl -pthread
.SECONDARY:

# The MPI plugin: loaded only by processes that a launcher started together.
MPI =
MPICC = $(shell command -v mpicc)
ifeq ($(MPI),0)
mpi:
else ifeq ($(MPICC),)
mpi:
	@echo "MPI: mpicc not found; building for one process" >&2
else
mpi: $(BUILD)/nightshift-mpi.so
endif
$(BUILD)/nightshift-mpi.so: $(wildcard lib/comm/mpi/*.c) lib/comm/transport.h Makefile
	@mkdir -p $(@D)
	$(call run,link) OMPI_CC=$(CC) MPICH_CC=$(CC) $(MPICC) -std=c11 -O2 -g -Wall -Wextra -Werror -Ilib -fPIC -shared $(wildcard lib/comm/mpi/*.c) -o $@

# The film plugin: FFmpeg's libraries, loaded with the first video file.
FILM_LIBRARIES = -lavformat -lavcodec -lswscale -lavutil -lm
FILM := $(shell echo '\#include <libavformat/avformat.h>' | $(CC) $(CPPFLAGS) -E -x c - >/dev/null 2>&1 && echo 1)
ifeq ($(FILM),0)
film:
else ifeq ($(FILM),)
film:
	@echo "FILM: FFmpeg's development packages not found; building without video files" >&2
else
film: $(BUILD)/nightshift-film.so
endif
$(BUILD)/nightshift-film.so: $(wildcard lib/file/film/*.c) lib/file/film_library.h lib/base/error.h Makefile
	@mkdir -p $(@D)
	$(call run,link) $(CC) $(CPPFLAGS_AUTO) $(CPPFLAGS) $(CFLAGS_AUTO) $(CFLAGS) -fPIC -shared $(wildcard lib/file/film/*.c) -o $@ \
		$(LDFLAGS_AUTO) $(LDFLAGS) $(FILM_LIBRARIES)

# The CUDA plugin. Each part is looked for by PATH and in CUDA_HOME; what is missing is said in one line.
ifneq ($(CUDA_SOURCES),)
CUDA =
CUDA_HOME ?= /usr/local/cuda
NVCC = $(firstword $(shell command -v nvcc) $(wildcard $(CUDA_HOME)/bin/nvcc))
CUDA_FOLDERS = $(CUDA_HOME)/include $(NVCC:%/bin/nvcc=%/include) /usr/local/include /usr/include $(wildcard /usr/include/*-linux-gnu)
CUDA_MISSING = $(if $(NVCC),,nvcc) $(foreach header,cudnn.h cublasLt.h nccl.h,$(if $(wildcard \
	$(CUDA_FOLDERS:%=%/$(header))),,$(header)))
ifeq ($(CUDA),0)
cuda:
else ifneq ($(strip $(CUDA_MISSING)),)
cuda:
	@echo "CUDA: $(strip $(CUDA_MISSING)) not found (CUDA_HOME=$(CUDA_HOME)); building for the CPU only" >&2
else
cuda: $(BUILD)/nightshift-cuda.so
endif
$(BUILD)/nightshift-cuda.so: $(CUDA_SOURCES) $(wildcard cuda/*.h cuda/*.cuh lib/graph/*.h) Makefile
	@mkdir -p $(@D)
	$(call run,compile) $(NVCC) -std=c++17 -O3 -Ilib -I$(CUDA_HOME)/include -shared -Xcompiler -fPIC $(NVCCFLAGS) $(CUDA_SOURCES) \
		-lcudnn -lcublasLt -lnccl -o $@
endif

# Packages first, then the build: a bare machine has neither. All processors, unless -j says how many.
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
demo:
	@tests/install-packages build
	@$(SUBMAKE) all
	@slurm/demo.sh $(TASK)
check:
	@tests/install-packages build
	@tests/install-packages test || echo "going on: tests that need them are skipped" >&2
	@$(SUBMAKE) all tests
	@$(SUBMAKE) SAN=address,undefined CFLAGS=-O1 film build-address-undefined/tests/fuzz
	@tests/run
check-long:
	@tests/install-packages build
	@tests/install-packages test long || echo "going on: tests that need them are skipped" >&2
	@$(SUBMAKE) all tests
	@$(SUBMAKE) SAN=address,undefined all tests
	@tests/run --long
bench: all
	@for script in $(filter-out tests/bench/operations,$(wildcard tests/bench/*)); do "$$script" || exit; done
bench-ops: all
	@tests/bench/operations

# One program for every parser; the words behind it are libFuzzer's: corpus first, then options.
build-fuzz/libfuzzer: $(FUZZ_SOURCES) $(wildcard lib/*/*.h tests/parsers/*.h) Makefile
	@$(SUBMAKE) CC=clang BUILD=build-fuzz SAN=fuzzer-no-link,address,undefined \
		CFLAGS="-O1 -Wno-pass-failed" $(FUZZ_SOURCES:%.c=build-fuzz/%.o)
	$(call run,link) clang -pthread -fsanitize=fuzzer,address,undefined $(FUZZ_SOURCES:%.c=build-fuzz/%.o) $(LDLIBS) -o $@
fuzz: build-fuzz/libfuzzer
	@for corpus in tests/corpus/*/; do parser=$$(basename $$corpus); mkdir -p build-fuzz/corpus/$$parser; \
		NIGHTSHIFT_PARSER=$$parser build-fuzz/libfuzzer -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 \
			-artifact_prefix=build-fuzz/$$parser- build-fuzz/corpus/$$parser $$corpus || exit; done

# Programs may be renamed by PROGRAM_PREFIX; the scripts find them under their own names in SHARE/bin.
SHARE = $(PREFIX)/share/nightshift
install: all
	install -d $(addprefix "$(DESTDIR)$(PREFIX)"/,bin share/man/man1 share/man/man5 share/man/man7) "$(DESTDIR)$(SHARE)/bin"
	for name in $(NAMES); do install bin/$$name "$(DESTDIR)$(PREFIX)/bin/$(PROGRAM_PREFIX)$$name" && \
		ln -sfn "../../../bin/$(PROGRAM_PREFIX)$$name" "$(DESTDIR)$(SHARE)/bin/$$name" || exit; done
	for page in man/*.[157]; do prefix=; [ "$${page##*.}" = 1 ] && prefix="$(PROGRAM_PREFIX)"; \
		install -m 644 $$page "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$prefix$${page#man/}" || exit; done
	if [ -d slurm ]; then cp -R slurm "$(DESTDIR)$(SHARE)/" && rm -f "$(DESTDIR)$(SHARE)/slurm/demo.sh" && \
		sed -i 's|^: "$${NIGHTSHIFT_HOME:=}".*|: "$${NIGHTSHIFT_HOME:=$(SHARE)}"|' \
			$$(find "$(DESTDIR)$(SHARE)/slurm" -type f ! -name '*.cfg'); fi
	for plugin in mpi film cuda; do if [ -f "$(BUILD)/nightshift-$$plugin.so" ]; then \
		install "$(BUILD)/nightshift-$$plugin.so" "$(DESTDIR)$(SHARE)/"; fi || exit; done
uninstall:
	rm -f $(NAMES:%="$(DESTDIR)$(PREFIX)/bin/$(PROGRAM_PREFIX)%")
	for page in man/*.[157]; do prefix=; [ "$${page##*.}" = 1 ] && prefix="$(PROGRAM_PREFIX)"; \
		rm -f "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$prefix$${page#man/}"; done
	rm -rf "$(DESTDIR)$(SHARE)"
clean:
	rm -rf build build-* $(NAMES:%=bin/%)
.PHONY: all tests mpi film cuda demo check check-long bench bench-ops fuzz install uninstall clean

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
