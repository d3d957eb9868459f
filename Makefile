# Shoal: `make run` shows it at work, `make test` proves it. Everything else is here to help.
# Meson builds; this file installs what is missing and knows which builds there are.

BUILD   = build
ASAN    = build-asan
TSAN    = build-tsan
FUZZ    = build-fuzz
DIST    = dist
FUZZ_SECONDS = 60
SECONDS = 3600
JOBS = 1

SETUP_asan = -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized \
             -Dc_args='-fno-sanitize-recover=all -fno-omit-frame-pointer'
SETUP_tsan = -Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized
SETUP_fuzz = -Dfuzzing=true -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized

# Where it is installed: /usr/local, unless make PREFIX=DIR was said once.
prefix = $(if $(PREFIX),'prefix=$(call absolute,$(PREFIX))')
# abspath takes a path with spaces for several.
space := $(subst ,, )
absolute = $(subst @space@,$(space),$(abspath $(subst $(space),@space@,$(1))))
destdir = '$(if $(DESTDIR),$(call absolute,$(DESTDIR)))'
# On a terminal a line that counts, and nothing else.
ninja = if [ -t 1 ]; then ninja -C $(1) $(2); else ninja -C $(1) --quiet $(2); fi

.PHONY: all tested asan tsan check test test-torchdata test-frameworks test-dlio test-types run bench bench-dlio fuzz torture soak audit reproducible \
	lint format \
	install uninstall wheel tarball deb clean
.DELETE_ON_ERROR:

# The library, the command, and the Python package where Python's headers are.
all:
	@tools/install-deps build
	@tools/configure $(BUILD) $(prefix)
	@$(call ninja,$(BUILD))

# The same, with the unit tests and benchmarks.
tested:
	@tools/install-deps build test
	@tools/configure $(BUILD) tests=true $(prefix)
	@$(call ninja,$(BUILD))

asan: tested
	@tools/configure $(ASAN) tests=true -- $(SETUP_asan)
	@$(call ninja,$(ASAN))

# Only the programs with threads.
tsan: tested
	@tools/configure $(TSAN) tests=true -- $(SETUP_tsan)
	@$(call ninja,$(TSAN),$$(tools/run-tests --threaded))

# The quick part, for use while working: one build without sanitizers, all unit programs, the quick part of the others.
check: tested
	@tools/run-tests --check $(BUILD)

# Everything. Ends, as the above, with one line: N passed, N failed.
test: tested asan tsan
	@tools/oracles $(BUILD) > /dev/null
	@tools/run-tests $(BUILD) $(ASAN) $(TSAN)

# With torchdata from PyPI, which this fetches below $(BUILD); make test-torchdata TORCH=torch for PyPI's torch as well.
test-torchdata: tested
	@tools/install-deps test-torchdata
	@tools/test-torchdata $(BUILD) $(TORCH)

# With Lightning, Accelerate, transformers and Ray Train from PyPI, below $(BUILD); FRAMEWORKS=newest for their newest versions.
test-frameworks: tested
	@tools/install-deps test-torchdata
	@tools/test-frameworks $(BUILD) $(FRAMEWORKS)

# In the three DLIOs and in mlpstorage, which this fetches below $(BUILD) as far as the network allows; make test-dlio
# SHOAL_DLIO_ARGONNE=DIR SHOAL_DLIO_MLCOMMONS=DIR SHOAL_MLPSTORAGE=DIR for checkouts that are there.
test-dlio: tested
	@tools/install-deps bench-dlio
	@SHOAL_DLIO_ARGONNE='$(SHOAL_DLIO_ARGONNE)' SHOAL_DLIO_MLCOMMONS='$(SHOAL_DLIO_MLCOMMONS)' SHOAL_MLPSTORAGE='$(SHOAL_MLPSTORAGE)' \
		tools/test-dlio $(BUILD)

# mypy --strict and pyright, which this fetches below $(BUILD), over the package, code of users and the examples.
test-types: tested
	@tools/install-deps test-torchdata
	@tools/test-types $(BUILD)

# With two ranks where there is an MPI, which it does not install: in Debian 13 that would be half of all packages.
run: all
	@tools/demo $(BUILD)

# make bench BENCH=--full for 100 million names, BENCH=--quick for a first look.
bench: tested
	@tools/install-deps bench
	@$$(tools/python numpy) bench/run.py --build $(BUILD) $(BENCH)

# Beside DLIO from PyPI, which this installs below $(BUILD).
bench-dlio: tested
	@tools/install-deps bench-dlio
	@/usr/bin/python3 bench/dlio.py --build $(BUILD) $(BENCH)

# Calls that fail, signals at random times, and hosts that are lost (as root); goes on from where the last run ended.
# make torture SECONDS=60 for a first look, JOBS=16 to try as many things at a time; docs/reliability.md has its tables.
torture: tested
	@PYTHONPATH=$(BUILD)/python $$(tools/python numpy) tools/campaign $(BUILD) --seconds $(SECONDS) --jobs $(JOBS)

# An hour of everything at once; make soak SECONDS=60 for a first look.
soak: tested
	@PYTHONPATH=$(BUILD)/python $$(tools/python numpy) tools/soak.py $(BUILD) --seconds $(SECONDS) --keep $(BUILD)/soak.json

# The libraries that were linked are those of docs/dependencies.md, and up to date.
audit: all
	@tools/audit $(BUILD)

# The wheel built twice, in different directories, is the same.
reproducible:
	@tools/install-deps build
	@tools/try-reproducible $(BUILD)/reproducible

fuzz:
	@tools/install-deps build test fuzz
	@CC=clang tools/configure $(FUZZ) -- $(SETUP_fuzz)
	@$(call ninja,$(FUZZ))
	@tools/run-fuzzers $(FUZZ) $(FUZZ_SECONDS) --jobs $(JOBS)

lint:
	@tools/install-deps build test lint
	@tools/configure $(BUILD) tests=true
	@tools/lint $(BUILD)

format:
	@tools/install-deps lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

# make install PREFIX=DIR, whatever was built before; DESTDIR is honoured.
install: all
	@DESTDIR=$(destdir) tools/install $(BUILD)

uninstall:
	@test -f $(BUILD)/build.ninja || { echo "there is no build in $(BUILD): it knows what was installed"; exit 1; }
	@tools/configure $(BUILD) $(prefix)
	@DESTDIR=$(destdir) tools/install --remove $(BUILD)

# A wheel for every Python since 3.11 and an sdist, tried in fresh environments: see docs/install.md.
wheel:
	@tools/install-deps build wheel
	@tools/make-wheel $(BUILD)/wheel $(DIST)

# The command of the wheel, to be unpacked anywhere.
tarball:
	@tools/install-deps build wheel
	@tools/make-tarball $(BUILD)/wheel $(DIST)

deb:
	@tools/install-deps build deb
	@tools/make-deb $(BUILD)/deb $(DIST)

clean:
	rm -rf $(BUILD) $(ASAN) $(TSAN) $(FUZZ) $(DIST)
