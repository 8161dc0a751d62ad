# The front door.  Meson builds; this file only remembers the command lines.
#
#   make                     build build/debug
#   make run                 the demonstration: two policies on simulated engines; then it serves
#   make test                the gate: unit, model, corpora, end to end
#   make test ONLY=fleet     the unit tests of test/fleet
#   make deep                the rest: sanitizers, check, fuzz, tests that compare wall times
#   make test-tokenizer      tokenizers and templates at length, against those that engines use
#   make threads             the tests that start threads, under ThreadSanitizer
#   make soak MINUTES=10     random faults under 300 streams; SEED= for another order of them
#   make check               format, lint, layers and style, headers
#   make bench ONLY=proxy    benchmarks; without ONLY all; QUICK=1: a minute each; sim: TRACE=FILE
#   make policies TRACE=FILE the comparison of policies in docs/
#   make fuzz SECONDS=60     libFuzzer on every target, from its corpus
#   make install PREFIX=/usr/local
#   make format              rewrite the sources in the house format
#
# BUILD picks the kind: debug release asan tsan clang.  Each command installs missing packages.

BUILD   ?= debug
SECONDS ?= 10
DOCUMENTS ?= 50000
MINUTES ?= 10
SEED    ?= 1
PREFIX  ?= /usr/local
OUT     := build/$(BUILD)

SETUP.debug   := --buildtype=debug
SETUP.clang   := --buildtype=debug
SETUP.release := --buildtype=release -Dslow_checks=false
# -O1 -g1 compiles in 58% of the time of -O2 -g, and traces still have line numbers.
SETUP.asan    := --buildtype=debug -Doptimization=1 -Dc_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false
SETUP.tsan    := --buildtype=debug -Doptimization=1 -Dc_args=-g1 -Db_sanitize=thread -Db_lundef=false
SETUP.fuzz    := --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dfuzzers=true
# Each of these builds links 400 programs.
COMPILER.debug := CC_LD=mold
COMPILER.asan  := CC_LD=mold
COMPILER.tsan  := CC_LD=mold
COMPILER.clang := CC=clang
COMPILER.fuzz  := CC=clang
ifeq ($(SETUP.$(BUILD)),)
$(error BUILD=$(BUILD) is not one of debug release asan tsan clang fuzz)
endif

FILES := $(sort $(wildcard src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] test/*.[ch] test/*/*.[ch] test/*/*/*.[ch] fuzz/*.[ch] bench/*.[ch]))
VENV  := build/venv
RUN_TESTS := $(VENV)/bin/python tools/run_tests.py

.PHONY: all program benches deps run test deep unit threads threads-build vocabularies e2e test-tokenizer soak check tidy lint format format-check headers fuzz bench policies install clean

all: $(OUT)/build.ninja
	@ninja -C $(OUT)

# Without the tests, which take most of the time.
program benches: $(OUT)/build.ninja
	@ninja -C $(OUT) $@

$(OUT)/build.ninja: | deps
	$(COMPILER.$(BUILD)) meson setup $(SETUP.$(BUILD)) --prefix=$(PREFIX) $(OUT)

deps:
	@tools/install.sh build $(DEPS.$(BUILD))
	@tools/web.py fetch
DEPS.debug := fast
DEPS.asan  := fast
DEPS.tsan  := fast
DEPS.clang := check
DEPS.fuzz  := fuzz

$(VENV)/.ready: test/e2e/requirements.txt
	@tools/install.sh test
	/usr/bin/python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

# The library that drives Chromium in the tests of the dashboard.
build/browser/.ready: test/browser/package-lock.json test/browser/package.json
	@tools/install.sh browser
	@mkdir -p build/browser
	@cp $^ build/browser
	npm ci --prefix build/browser --no-audit --no-fund --loglevel=error
	@touch $@

run:
	@$(MAKE) --no-print-directory BUILD=release program
	@tools/install.sh test
	@exec /usr/bin/python3 tools/demo.py build/release/warmpath

# With ONLY, just the programs of that folder are built.
ifeq ($(ONLY),)
test: all vocabularies
	@$(RUN_TESTS) $(OUT)
else
test: $(OUT)/build.ninja
	@/usr/bin/python3 tools/run_tests.py $(OUT) --only $(ONLY)
endif

unit: all
	@/usr/bin/python3 tools/run_tests.py $(OUT) --part unit

# PART picks some of quiet, check, asan, asan-e2e, tsan, fuzz.
deep: all
	@/usr/bin/python3 tools/deep.py $(PART)

# The programs that can start threads, under ThreadSanitizer.
threads-build:
	@$(MAKE) --no-print-directory BUILD=debug all
	@$(MAKE) --no-print-directory BUILD=tsan build/tsan/build.ninja
	@ninja -C build/tsan $$(tools/threaded.py build/debug)

threads: threads-build
	@/usr/bin/python3 tools/run_tests.py build/tsan --part threads

# Without vocabularies, the tests that need them are skipped, and say so.
vocabularies: $(VENV)/.ready build/browser/.ready
	@$(VENV)/bin/python tools/vocabularies.py || true

# PART is core or quiet (see tools/run_tests.py).  ARGS go to pytest.
e2e: all vocabularies
	@$(RUN_TESTS) $(OUT) --part $(or $(PART),e2e) -- $(ARGS)

# Every family of tokenizers, every template: what test/e2e runs a part of.
test-tokenizer: all $(VENV)/.ready
	@$(VENV)/bin/python tools/vocabularies.py --full || true
	@$(VENV)/bin/pytest -q test/e2e/test_15_tokenizer.py test/e2e/test_16_templates.py -n 2 \
	    --warmpath $(OUT)/warmpath --documents $(DOCUMENTS) --all-templates $(ARGS)

# Engines, fleet and configuration break at random under 300 streams: test/soak/soak.py.
soak: program $(VENV)/.ready
	@$(VENV)/bin/python test/soak/soak.py --warmpath $(OUT)/warmpath --minutes $(MINUTES) --seed $(SEED) $(ARGS)

check: tidy format-check headers lint

tidy:
	tools/tidy.py
	tools/prose.py
	tools/doc_check.py

# Analyses the files that changed since they were last clean, and those that include them.
lint: $(OUT)/build.ninja
	@tools/install.sh check
	tools/lint.py $(OUT)

format:
	@tools/install.sh check
	clang-format -i $(FILES)

format-check:
	@tools/install.sh check
	@clang-format --dry-run --Werror $(FILES)

headers: $(OUT)/build.ninja
	tools/headers.py $(OUT)

# As many targets at a time as there are cores.  New inputs go to build/fuzz/new/.
fuzz:
	@$(MAKE) --no-print-directory BUILD=fuzz build/fuzz/build.ninja
	@ninja -C build/fuzz $(patsubst fuzz/%.c,%,$(wildcard fuzz/*_fuzz.c))
	@printf '%s\n' build/fuzz/*_fuzz | xargs -P $$(nproc) -I{} tools/fuzz.sh {} $(SECONDS)
	@echo "$(words $(wildcard fuzz/*_fuzz.c)) targets ran $(SECONDS) s each without a finding"

bench: $(VENV)/.ready
	@tools/install.sh bench
	@$(MAKE) --no-print-directory BUILD=release benches
	@TRACE=$(TRACE) /usr/bin/python3 bench/run.py --build build/release $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

# Every policy on every workload: docs/policies.md and docs/policies/.
policies:
	@$(MAKE) --no-print-directory BUILD=release program
	@/usr/bin/python3 tools/policies.py build/release/warmpath --trace $(TRACE)

# The prefix is a setting of the build folder, which may be there from an earlier one.
install:
	@$(MAKE) --no-print-directory BUILD=release build/release/build.ninja
	@meson configure build/release -Dprefix=$(abspath $(PREFIX))
	@$(MAKE) --no-print-directory BUILD=release program
	meson install -C build/release --no-rebuild

clean:
	rm -rf build
