# Two commands do everything on a fresh Debian 12: `make demo` and `make test`.
BUILD ?= build
JOBS ?= 2
CMAKE_ARGS ?=
DATA := $(wildcard ../shared/data)
export HASTINGS_TEST_DATA ?= $(if $(DATA),$(abspath $(DATA)),)

.PHONY: demo test configure build bench bench-peers asan tsan fuzz format lint api setup results clean

demo: configure
	cmake --build $(BUILD) -j $(JOBS) --target hastings_cli
	rm -rf runs/demo
	$(BUILD)/hastings sample mog6 --output runs/demo --seed 1
	@echo "The run is in runs/demo: draws as chain-*.csv (Stan CSV) and draws.npz, summary.json, config.json."

test: build
	scripts/setup --test || echo "Some tools could not be installed: their tests are skipped."
	cd $(BUILD) && { ctest --output-on-failure -j $(JOBS) -LE slow > ctest.log; status=$$?; cat ctest.log; \
	  echo "$$(grep -c '\*\*\*Skipped' ctest.log) tests skipped."; exit $$status; }

setup:
	scripts/setup

configure: setup
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	rm -f $(BUILD).log

build: configure
	cmake --build $(BUILD) -j $(JOBS)

bench: setup
	cmake -S . -B build-bench -G Ninja -DHASTINGS_BENCH=ON -DHASTINGS_TESTS=OFF > /dev/null
	cmake --build build-bench -j $(JOBS)
	build-bench/bench/hastings_bench --benchmark_out=build-bench/bench.json --benchmark_out_format=json
	@echo "Kept in build-bench/bench.json."

bench-peers: build
	bench/peers/run --hastings $(BUILD)/hastings

asan: setup
	cmake -S . -B build-asan -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DHASTINGS_SANITIZE=address > /dev/null
	cmake --build build-asan -j $(JOBS)
	cd build-asan && ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 ctest --output-on-failure -j $(JOBS) -L unit

# The threaded paths: learning, sampling, resuming, experiments' jobs.
tsan: setup
	cmake -S . -B build-tsan -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DHASTINGS_SANITIZE=thread > /dev/null
	cmake --build build-tsan -j $(JOBS) --target unit_tests
	TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp" setarch -R build-tsan/tests/unit_tests --gtest_filter='$(THREADED)'
THREADED := *Thread*:*Parallel*:*Resume*:Sampler*:GanTrain*:*Proposals*

# So many inputs to each reader of files, under ASan and UBSan.
RUNS ?= 1000000
fuzz: build
	scripts/setup --fuzz
	fuzz/run $(RUNS)

format:
	scripts/setup --tools
	git ls-files '*.h' '*.cpp' | xargs clang-format -i

lint:
	scripts/setup --tools
	scripts/check_rooms
	scripts/check_docs
	git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
	cppcheck --quiet --std=c++20 --inline-suppr --enable=warning,performance,portability --error-exitcode=1 \
	  --suppress=missingInclude --suppress=unknownMacro -I include src apps

# Pages of the API, from the headers: build/api/html/index.html.
api:
	command -v doxygen > /dev/null || scripts/setup --tools
	mkdir -p $(BUILD)/api
	OUTPUT=$(BUILD)/api doxygen Doxyfile
	@echo "$(BUILD)/api/html/index.html"

results: build
	cmake --build $(BUILD) -j $(JOBS) --target hastings_results
	$(BUILD)/experiments/results --first-seed 11 --commit $$(git rev-parse --short HEAD)

clean:
	rm -rf build build-bench build-asan build-tsan build-fuzz
