# The front door.  Meson builds; this file only remembers the command lines.
#
#   make                     build build/debug
#   make run                 the demonstration: two policies on simulated engines; then it serves
#   make test                every test: unit, model, corpora, end to end
#   make test-tokenizer      tokenizers and templates at length, against those that engines use
#   make threads             the tests that start threads, under ThreadSanitizer
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
# Sanitizers slow programs down: their tests get more time.
TIMES.asan := --timeout-multiplier 5
TIMES.tsan := --timeout-multiplier 10
ifeq ($(SETUP.$(BUILD)),)
$(error BUILD=$(BUILD) is not one of debug release asan tsan clang fuzz)
endif

FILES := $(sort $(wildcard src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] test/*.[ch] test/*/*.[ch] test/*/*/*.[ch] fuzz/*.[ch] bench/*.[ch]))
VENV  := build/venv

.PHONY: all program benches deps run test unit threads threads-build e2e test-tokenizer check tidy lint format format-check headers fuzz bench policies install clean

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

test:
	@tools/test.sh $(BUILD)

unit: all
	@meson test -C $(OUT) --no-rebuild --print-errorlogs $(TIMES.$(BUILD)); tools/tally.py $(OUT)

# The programs that can start threads, under ThreadSanitizer.
threads-build:
	@$(MAKE) --no-print-directory BUILD=debug all
	@$(MAKE) --no-print-directory BUILD=tsan build/tsan/build.ninja
	@ninja -C build/tsan $$(tools/threaded.py build/debug --programs)

threads: threads-build
	@meson test -C build/tsan --no-rebuild --print-errorlogs $(TIMES.tsan) $$(tools/threaded.py build/debug); \
	    tools/tally.py build/tsan

# Without vocabularies, the tests that need them are skipped, and say so.  ARGS go to pytest.
e2e: all $(VENV)/.ready build/browser/.ready
	@$(VENV)/bin/python tools/vocabularies.py || true
	@$(VENV)/bin/python tools/e2e.py $(OUT) $(ARGS)

# Every family of tokenizers, every template: what test/e2e runs a part of.
test-tokenizer: all $(VENV)/.ready
	@$(VENV)/bin/python tools/vocabularies.py --full || true
	@$(VENV)/bin/pytest -q test/e2e/test_15_tokenizer.py test/e2e/test_16_templates.py -n 2 \
	    --warmpath $(OUT)/warmpath --documents $(DOCUMENTS) --all-templates $(ARGS)

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
	clang-format --dry-run --Werror $(FILES)

headers: $(OUT)/build.ninja
	tools/headers.py $(OUT)

fuzz:
	@$(MAKE) --no-print-directory BUILD=fuzz build/fuzz/build.ninja
	@ninja -C build/fuzz $(patsubst fuzz/%.c,%,$(wildcard fuzz/*_fuzz.c))
	@for target in build/fuzz/*_fuzz; do \
	    name=$$(basename $$target _fuzz); mkdir -p build/fuzz/new/$$name; \
	    $$target -max_total_time=$(SECONDS) -print_final_stats=1 \
	        build/fuzz/new/$$name fuzz/corpus/$$name || exit 1; \
	done

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
