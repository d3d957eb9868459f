# Shoal: `make run` shows it at work, `make test` proves it. Everything else is here to help.
# Meson builds; this file installs what is missing and knows which builds there are.

BUILD   = build
ASAN    = build-asan
TSAN    = build-tsan
FUZZ    = build-fuzz
PREFIX  = /usr/local
FUZZ_SECONDS = 60

SETUP_asan = -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized \
             -Dc_args='-fno-sanitize-recover=all -fno-omit-frame-pointer'
SETUP_tsan = -Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized
SETUP_fuzz = -Dfuzzing=true -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized

# Meson says much that nobody needs, unless it fails.
setup = meson setup $(1) > build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }; rm -f build.log

.PHONY: all asan tsan check test test-torchdata test-frameworks test-dlio test-types run bench bench-dlio fuzz torture lint format install clean
.DELETE_ON_ERROR:

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

$(BUILD)/build.ninja:
	@tools/install-deps build test
	@$(call setup,$(BUILD) --buildtype=debugoptimized --prefix=$(PREFIX))

asan: all $(ASAN)/build.ninja
	@ninja -C $(ASAN) --quiet

$(ASAN)/build.ninja:
	@$(call setup,$(ASAN) $(SETUP_asan))

tsan: all $(TSAN)/build.ninja
	@ninja -C $(TSAN) --quiet

$(TSAN)/build.ninja:
	@$(call setup,$(TSAN) $(SETUP_tsan))

# The quick part, for use while working: one build without sanitizers, all unit programs, the quick part of the others.
check: all
	@tools/run-tests --check $(BUILD)

# Everything. Ends, as the above, with one line: N passed, N failed.
test: all asan tsan
	@tools/run-tests $(BUILD) $(ASAN) $(TSAN)

# With torchdata from PyPI, which this fetches below $(BUILD); make test-torchdata TORCH=torch for PyPI's torch as well.
test-torchdata: all
	@tools/install-deps test-torchdata
	@tools/test-torchdata $(BUILD) $(TORCH)

# With Lightning, Accelerate, transformers and Ray Train from PyPI, below $(BUILD); FRAMEWORKS=newest for their newest versions.
test-frameworks: all
	@tools/install-deps test-torchdata
	@tools/test-frameworks $(BUILD) $(FRAMEWORKS)

# In DLIO itself: PyPI's, which this fetches below $(BUILD); make test-dlio SHOAL_DLIO_ARGONNE=DIR SHOAL_DLIO_MLCOMMONS=DIR for checkouts
# of the other two as well.
test-dlio: all
	@tools/install-deps bench-dlio
	@SHOAL_DLIO_ARGONNE='$(SHOAL_DLIO_ARGONNE)' SHOAL_DLIO_MLCOMMONS='$(SHOAL_DLIO_MLCOMMONS)' tools/test-dlio $(BUILD)

# mypy --strict and pyright, which this fetches below $(BUILD), over the package, code of users and the examples.
test-types: all
	@tools/install-deps test-torchdata
	@tools/test-types $(BUILD)

run: all
	@tools/demo $(BUILD)

# make bench BENCH=--full for 100 million names, BENCH=--quick for a first look.
bench: all
	@tools/install-deps bench
	@$$(tools/python numpy) bench/run.py --build $(BUILD) $(BENCH)

# Beside DLIO from PyPI, which this installs below $(BUILD).
bench-dlio: all
	@tools/install-deps bench-dlio
	@/usr/bin/python3 bench/dlio.py --build $(BUILD) $(BENCH)

# Every call that can fail, one after the other.
torture: all
	@SHOAL_TORTURE=1 SHOAL=$(BUILD)/shoal python3 -m pytest tests/cli/test_failing_calls.py -q

fuzz: $(BUILD)/build.ninja
	@tools/install-deps fuzz
	@test -f $(FUZZ)/build.ninja || { export CC=clang; $(call setup,$(FUZZ) $(SETUP_fuzz)); }
	@ninja -C $(FUZZ) --quiet
	@tools/run-fuzzers $(FUZZ) $(FUZZ_SECONDS)

lint: $(BUILD)/build.ninja
	@tools/install-deps lint
	@tools/lint $(BUILD)

format:
	@tools/install-deps lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@meson install -C $(BUILD) --quiet

clean:
	rm -rf $(BUILD) $(ASAN) $(TSAN) $(FUZZ)
