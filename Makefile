# `make help` lists what can be asked for. Everything runs in .venv, which `make setup` fills.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.up-to-date
ENGINE_STAMP := $(VENV)/.engine
SPARK_STAMP := $(VENV)/.spark

# What the targets for a GPU run on: PYTHON where it is given, else the first interpreter that has CuPy and pytest.
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
GPU_PYTHON = $(PYTHON)
else
GPU_PYTHON = $(shell for python in $(BIN)/python python3 python; do \
	  $$python -c 'import sys, importlib.util as i; sys.exit(not all(map(i.find_spec, ("cupy", "pytest"))))' 2>/dev/null \
	    && { echo $$python; exit; }; done; echo python3)
endif
# Parts of the targets for a GPU, all if none is named: make test-gpu PART="kernels engine"
PART ?=
PARTS = $(addprefix --part ,$(PART))

# The first interpreter that starts, is of a supported version and can make a venv; `make PYTHON=... setup` overrides.
PYTHON ?= $(shell for python in python3 python3.15 python3.14 python3.13 python3.12 python3.11 python; do \
	  $$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 16))' 2>/dev/null \
	    && { echo $$python; break; }; done)

# At most four test processes: each compiles or loads the kernels and holds graphs of its own.
TEST_WORKERS ?= auto
TESTS ?=
# Planted faults that `make test-mutants` and `make test-kernel-mutants` look for, all if none is named.
MUTANTS ?=

# `make run-engine` reads a stream that it generates once, or any file: make run-engine EDGES=graph.txt.gz TICK_ROWS=10000
EDGES ?=
TICK_ROWS ?=
STREAM := .run/payments.parquet
CHANGES := .run/changes

# How long `make fuzz` takes for each parser, and which ones; all if none is named.
SECONDS ?= 600
PARSERS ?=

# The versions of PySpark that `make test-spark-versions` installs below .run, and what it runs on each.
PYSPARK ?= 4.2.1 4.3.0
SPARK_TESTS ?= $(addprefix tests/spark/test_,types.py languages.py query.py)

# The lowest versions that pyproject.toml allows, and the tests that `make test-lowest` runs on them, without Spark, on
# NumPy's kernels. Tests of devices are left out: the CuPy of the extra gpu asks for NumPy 2.
LOWEST := numpy==1.26.4 pyarrow==19.0.1 numba==0.61.0 lark==1.2.1 cyclopts==4.5.1 rich==13.9.1
LOWEST_PYTHON ?= python3.11
OTHER_PYTHON ?= python3.15
PYTHON_TESTS ?= $(addprefix tests/,arrow checkpoint circuit cli data files join planner program query trace views zset test_result.py test_first_lines.py test_imports.py)
LOWEST_TESTS ?= $(addprefix tests/,test_result.py arrow data zset files views cli/test_terminal.py $(addprefix program/test_,ticks.py types.py nulls.py weights.py))

# What generates the tables and queries of TPC-H and TPC-DS: DuckDB's extensions, which are on PyPI for this version.
TPC := duckdb==1.5.5 duckdb-extension-tpch==1.5.5 duckdb-extension-tpcds==1.5.5

# Kills of the driver that `make soak-spark` makes.
POINTS ?= 20

.PHONY: help setup run run-engine test-spark test-spark-versions test-lowest test-python soak-spark bench-spark bench-spark-find bench-spark-flat bench-spark-scale test test-long fuzz check check-extras soak-checkpoint format bench bench-suite bench-recursion bench-rivals bench-lsqb bench-tpch bench-sql bench-one-shot bench-fast-paths bench-souffle bench-cliffs bench-estimates calibrate-costs clean coverage test-shim-sanitized test-shim-races test-ptx test-mutants test-kernel-mutants test-gpu sanitize-gpu bench-gpu \
	test-rapids test-rapids-gpu test-docker

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv and install into it; does nothing when it is up to date

$(STAMP): EXTRAS = [dev,bench]
$(SPARK_STAMP): EXTRAS = [spark]
$(STAMP) $(SPARK_STAMP) $(ENGINE_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 to 3.15 with venv was found. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --editable '.$(EXTRAS)'
	@touch $@ $(if $(findstring dev,$(EXTRAS)),$(SPARK_STAMP)) $(ENGINE_STAMP)

run: $(SPARK_STAMP)  ## keep triangles up to date on Spark, on this machine alone, over a stream of files that is made first
	@test -e $(CHANGES) || { $(BIN)/gpu-wcoj generate payments --files 40 --output $(CHANGES).new && mv $(CHANGES).new $(CHANGES); }
	@rm -rf .run/checkpoint .run/triangles
	$(BIN)/gpu-wcoj spark run examples/triangles.dl --source 'edge=$(CHANGES)?columns=src,dst&weight=weight' \
	  --max-files 2 --checkpoint .run/checkpoint --output .run/triangles --head 5

run-engine: $(ENGINE_STAMP)  ## the same without Spark (EDGES=path for a file of your own)
ifeq ($(strip $(EDGES)),)
	@test -e $(STREAM) || { mkdir -p $(dir $(STREAM)) && $(BIN)/gpu-wcoj generate payments --output $(STREAM); }
	$(BIN)/gpu-wcoj run examples/triangles.dl --changes 'edge=$(STREAM)?columns=src,dst&weight=weight&tick=tick' --limit 5
else
	$(BIN)/gpu-wcoj run examples/triangles.dl --changes 'edge=$(EDGES)' $(if $(TICK_ROWS),--tick-rows $(TICK_ROWS)) --limit 5
endif

# Pyright takes a processor for two minutes, so that all else runs beside it, the tests too. With more room for young
# objects, Node collects garbage less often.
check: setup  ## lint, format, house style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	NODE_OPTIONS=--max-semi-space-size=64 $(BIN)/pyright --pythonpath $(BIN)/python & pyright=$$!; \
	  $(BIN)/python -m tests.house && $(BIN)/lint-imports && $(BIN)/mypy && $(BESIDE_PYRIGHT); found=$$?; wait $$pyright && exit $$found

BESIDE_PYRIGHT = true
# Test processes, and the many processes that tests start, share bytecode, also where the environment switches that off.
# The C library keeps the memory of arrays that are freed, which saves a sixth of the CPU time of the kernels' tests.
KEEP_MEMORY := MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=67108864
test: BESIDE_PYRIGHT = { $(BIN)/gpu-wcoj warm || true; } && PYTHONDONTWRITEBYTECODE= $(KEEP_MEMORY) $(BIN)/python -m pytest \
  --numprocesses $(TEST_WORKERS) --maxprocesses 4 --dist loadgroup $(TESTS)
test: check  ## check, and run the tests (TESTS=path chooses some)

coverage: setup  ## print the lines and branches of each module that the tests do not run, without those that numba compiles
	mkdir -p .run && rm -f .run/coverage*
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m coverage run -m pytest --numprocesses $(TEST_WORKERS) --maxprocesses 4 --dist loadgroup $(TESTS) || true
	$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report --sort=cover

fuzz: setup  ## fuzz every parser, guided by what it runs, SECONDS=600 each (PARSERS="sql motif" chooses some); Linux
	$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(PARSERS)

soak-checkpoint: setup  ## kill a checkpoint's writer at every operation and go on to the end; lose power 200 times at each
	SOAK=1 $(BIN)/python -m pytest -rP tests/checkpoint/test_kill.py tests/checkpoint/test_power.py

test-long: setup  ## run what takes long: GALEN's fixpoint, every recursive program on every kind of kernels, all random cases
	TEST_LONG=1 $(KEEP_MEMORY) $(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --maxprocesses 4 --dist loadgroup $$(grep -rl --include='test_*.py' -e 'import IS_LONG' -e 'mark.drawn' -e 'mark.long' -e '@given' tests)

check-extras: setup  ## see whether pip can install every extra, alone and beside the others; installs nothing
	CHECK_EXTRAS=1 $(BIN)/python -m pytest -rP tests/test_extras.py

test-spark: setup  ## test on Spark at length: formats, kills, restarts, many cells (some twenty minutes)
	TEST_LONG=1 TEST_SPARK=all $(BIN)/python -m pytest -p no:xdist tests/spark tests/bench/test_spark_scale.py

test-spark-versions: setup  ## test times, types and languages on other versions of PySpark (PYSPARK="4.2.1 4.3.0")
	@for version in $(PYSPARK); do \
	  test -e .run/pyspark-$$version || { rm -rf .run/pyspark-$$version.new; \
	    PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-compile \
	      --target .run/pyspark-$$version.new pyspark==$$version && mv .run/pyspark-$$version.new .run/pyspark-$$version; } || exit 1; \
	  TEST_LONG=1 TEST_SPARK=all PYTHONPATH=$(CURDIR)/.run/pyspark-$$version $(BIN)/python -m pytest -p no:xdist $(SPARK_TESTS) || exit 1; \
	done

test-lowest:  ## test on the lowest versions of NumPy, PyArrow and the others, in a venv below .run (LOWEST_TESTS=path)
	@test -e .run/lowest/ready || { $(LOWEST_PYTHON) -m venv .run/lowest && .run/lowest/bin/python -m pip install --quiet \
	  $(LOWEST) 'cupy-cuda13x<14' nvidia-cuda-nvrtc pandas==2.2.0 polars duckdb 'sqlglot>=30,<31' scipy networkx clingo \
	  edn_format hypothesis pytest pyyaml && touch .run/lowest/ready; }
	PYTHONPATH=$(CURDIR) GPU_WCOJ_COMPILE=never .run/lowest/bin/python -m pytest --ignore tests/zset/test_device.py $(LOWEST_TESTS)

test-python:  ## test on another Python, with the newest versions that it has wheels of (OTHER_PYTHON=python3.14)
	@test -e .run/$(OTHER_PYTHON)/ready || { $(OTHER_PYTHON) -m venv .run/$(OTHER_PYTHON) && .run/$(OTHER_PYTHON)/bin/python -m pip install --quiet \
	  --only-binary :all: numpy pyarrow numba lark cyclopts rich pandas polars duckdb 'sqlglot>=30,<31' scipy networkx \
	  clingo edn_format prompt_toolkit ipython hypothesis pytest pytest-xdist pyyaml hatchling && \
	  touch .run/$(OTHER_PYTHON)/ready; }
	PYTHONPATH=$(CURDIR) GPU_WCOJ_COMPILE=wait .run/$(OTHER_PYTHON)/bin/python -m pytest -n 2 $(PYTHON_TESTS)

soak-spark: setup  ## kill drivers of Spark at random times (POINTS=20) and see that every batch counts once
	SOAK_POINTS=$(POINTS) $(BIN)/python -m pytest -p no:xdist -s tests/spark/test_view_kills.py -k soak

bench-spark: setup  ## measure views and joins beside Spark SQL's own (BENCH="--scale 14" for a small graph)
	$(BIN)/python -m bench.spark $(BENCH)

bench-spark-find: setup  ## measure gws.find beside Spark SQL's joins of the same motif (BENCH="--rounds 1 --kinds counted")
	$(BIN)/python -m bench.spark.find $(BENCH)

bench-spark-scale: setup  ## measure cells beside one engine, by scale of the graph (BENCH="--scale 20 --master local-cluster[2,1,6144]")
	$(BIN)/python -m bench.spark.scale $(BENCH)

bench-spark-flat: setup  ## keep a view up for half an hour at a constant rate; plots time and memory (BENCH="--minutes 5")
	$(BIN)/python -m bench.spark.flat $(BENCH)

format: setup  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## measure the engine beside GraphBLAS and DuckDB (BENCH="--scale 14" for a small one)
	$(BIN)/python -m bench.engine $(BENCH)

bench-tpch: setup  ## keep views of TPC-H's queries up to date over refreshes, beside DuckDB (BENCH="--scale 1")
	$(BIN)/python -m bench.tpch $(BENCH)

bench-sql: setup  ## answer TPC-H, TPC-DS and a thousand statements by gw.query, beside DuckDB (BENCH="tpch --tpch 0.1")
	@test -e .run/tpc-venv/ready || { $(PYTHON) -m venv .run/tpc-venv && .run/tpc-venv/bin/python -m pip install --quiet \
	  $(TPC) && touch .run/tpc-venv/ready; }
	$(BIN)/python -m bench.sql $(BENCH)

bench-one-shot: setup  ## answer one-shot queries from Arrow tables, beside DuckDB (BENCH="group --threads 1")
	$(BIN)/python -m bench.one_shot $(BENCH)

bench-fast-paths: setup  ## time ticks with and without each fast path, on the case that it is there for
	$(BIN)/python -m bench.fast_paths $(BENCH)

calibrate-costs: setup  ## measure the costs that plans are compared by, and compare them with the stored ones (BENCH="--write" sets it)
	$(BIN)/python -m bench.costs $(BENCH)

bench-estimates: setup  ## compare what plans were expected to do with what ticks counted
	$(BIN)/python -m bench.estimates $(BENCH)

bench-souffle: setup  ## run programs in Soufflé's dialect and count those with the right output
	$(BIN)/python -m bench.souffle $(BENCH)

bench-cliffs: setup  ## search for random queries whose cost depends on their wording (BENCH="--seconds 3600")
	$(BIN)/python -m bench.cliffs $(BENCH)

bench-lsqb: setup  ## count LSQB's queries from loaded state and tick by tick, beside DuckDB (BENCH="--rounds 5")
	$(BIN)/python -m bench.lsqb $(BENCH)

bench-rivals: setup  ## count triangles while nodes arrive, beside the crate differential-dogs3, where cargo is
	$(BIN)/python -m bench.rivals $(BENCH)

bench-suite: setup  ## compare the strategies of joining and rivals, in five minutes (BENCH="--suite full --report bench/results")
	$(BIN)/gpu-wcoj bench $(BENCH)

bench-recursion: setup  ## measure recursive programs beside DuckDB and clingo (BENCH="--no-rivals", "--parts GALEN")
	$(BIN)/python -m bench.recursion $(BENCH)

test-shim-sanitized: setup  ## the kernel tests on the host, with kernels watched for bad addresses and overflow (TESTS=path)
	$(BIN)/python -m tests.shim sanitized $(TESTS)

test-shim-races: setup  ## the kernel tests on the host, with every access of a kernel watched for races (TESTS=path)
	$(BIN)/python -m tests.shim races $(TESTS)

test-ptx: setup  ## the kernel tests and whole programs on the host, on the PTX that NVRTC makes of the kernels (TESTS=path)
	$(BIN)/python -m tests.shim ptx $(TESTS)
	TEST_LONG=1 $(BIN)/python -m pytest -q -p no:xdist tests/ptx

test-mutants: setup  ## plant faults in copies of the tree and see that the tests find each (MUTANTS="null-as-zero", "--jobs 2")
	$(BIN)/python -m tests.mutants $(MUTANTS)

test-kernel-mutants: setup  ## plant faults in copies of the kernels and see that the tests find each (MUTANTS="8 9", "--all")
	$(BIN)/python -m tests.mutants.kernels $(MUTANTS)

# The jar of the RAPIDS Accelerator, a gigabyte, is fetched once. RAPIDS_RECORD=file keeps what the plugin said.
test-rapids: setup  ## print which parts of our plans the RAPIDS Accelerator would run on a GPU; needs none
	RAPIDS_JAR="$$($(BIN)/python -m tests.rapids.fetch | tail -n 1)" $(BIN)/python -m pytest -p no:xdist tests/rapids/test_plans.py

test-rapids-gpu: setup  ## run our plans on a GPU by the RAPIDS Accelerator; whatever stays on the CPU is an error
	RAPIDS_JAR="$$($(BIN)/python -m tests.rapids.fetch | tail -n 1)" TEST_RAPIDS_GPU=1 \
	  $(BIN)/python -m pytest -p no:xdist tests/rapids/test_gpu.py

test-docker: setup  ## carry out the steps of the CPU image over this machine's root, without Docker; needs root
	TEST_DOCKER=1 $(BIN)/python -m pytest -p no:xdist tests/docker

# These need a GPU, an interpreter that has CuPy, and the checkout; they install nothing. Their reports go to
# bench/results, or to $$OUT.
test-gpu:  ## run the tests on a GPU, in parts of at most 8 minutes (PART="kernels engine" chooses some)
	$(GPU_PYTHON) -m tests.gpu $(PARTS)

sanitize-gpu:  ## run the kernel tests on a GPU under compute-sanitizer (PART=racecheck chooses a tool)
	$(GPU_PYTHON) -m tests.gpu --sanitize $(PARTS)

bench-gpu:  ## measure on a GPU, in parts of at most 8 minutes (PART=streams17, BENCH="--scale 14")
	$(GPU_PYTHON) -m bench.gpu $(PARTS) $(BENCH)

clean:  ## remove .venv and everything else that is made
	rm -rf $(VENV) .run build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
