# Tests, run by CTest.  Two kinds, found by their place:
#   test/unit/NAME.c     a cmocka program; those named in RUNTIME_UNITS link the runtime, the others the generator
#   test/LABEL/NAME.sh   a script run in the project's root with DISC_GEN set; exit status 77: skipped, the reason on its last line
# With SANITIZE=1 all of it lies in out/sanitize, and scripts have the compilers' options for what they build themselves in SANITIZERS.
# Labels: unit and the folders' names.  gpu and long run only when asked for: make test LABELS=long, make test DEVICE=cuda

TEST_OUT      := $(abspath $(if $(SANITIZE),out/sanitize/test,out/test))
RUNTIME_UNITS := $(patsubst test/unit/%.c,%,$(wildcard test/unit/runtime_*.c))
UNITS         := $(filter-out $(RUNTIME_UNITS),$(patsubst test/unit/%.c,%,$(wildcard test/unit/*.c)))
TEST_SUPPORT  := $(patsubst %.c,$(OBJ)/%.o,$(wildcard test/support/*.c))
RUNTIME_OBJ   := $(patsubst %.c,$(OBJ)/%.o,$(wildcard runtime/controller/*.c runtime/trainer/*.c)) $(OBJ)/runtime/device/memory_host.o $(OBJ)/runtime/device/threads_host.o $(OBJ)/runtime/device/copies_host.o $(OBJ)/runtime/device/graph_host.o $(OBJ)/runtime/device/rates_host.o
SCRIPTS       := $(filter-out test/conformance/run.sh test/conformance/unit.sh test/bench/%,$(wildcard test/*/*.sh))
PROGRAMS      := $(addprefix $(TEST_OUT)/,$(UNITS) $(RUNTIME_UNITS)) $(patsubst test/fuzz/%.c,$(TEST_OUT)/%_fuzz,$(wildcard test/fuzz/*.c)) \
                 $(TEST_OUT)/ir_run $(TEST_OUT)/interpret_golden $(TEST_OUT)/interpret_conformance $(TEST_OUT)/make_bad_models $(TEST_OUT)/field_gradients $(TEST_OUT)/kernels \
                 $(TEST_OUT)/conformance_batch $(TEST_OUT)/conformance_runner.a
JOBS          ?= 2

.PHONY: test tests conformance conformance-gradients bench
tests: $(BIN) $(PROGRAMS) $(TEST_OUT)/CTestTestfile.cmake

test: tests
	@command -v ctest >/dev/null || { echo "make test needs ctest: apt-get install cmake"; exit 1; }
ifeq ($(DEVICE),cuda)
	ctest --test-dir $(TEST_OUT) -V -L gpu
else
	ctest --test-dir $(TEST_OUT) -j$(JOBS) --output-on-failure $(if $(LABELS),-L '$(LABELS)',-LE 'gpu|long')
endif

$(OBJ)/test/%.o: test/%.c $(GEN)/onnx.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC       $<"; $(CC) -std=gnu11 $(CFLAGS) $(SAN) $(WARN) $(INCLUDE) -I. -Itest -MMD -c -o $@ $<
$(OBJ)/runtime/%.o: runtime/%.c
	@mkdir -p $(@D)
	@echo "  CC       $<"; $(CC) -std=gnu11 $(CFLAGS) $(SAN) $(WARN) -Iruntime -MMD -c -o $@ $<
$(OBJ)/runtime/%.o: runtime/%.cpp
	@mkdir -p $(@D)
	@echo "  CXX      $<"; $(CXX) -std=c++17 $(CFLAGS) $(SAN) -Wall -Wextra -fopenmp -Iruntime -MMD -c -o $@ $<
$(OBJ)/test/unit/runtime_%.o: test/unit/runtime_%.c
	@mkdir -p $(@D)
	@echo "  CC       $<"; $(CC) -std=gnu11 $(CFLAGS) $(SAN) $(WARN) -Iruntime -Itest -MMD -c -o $@ $<

$(addprefix $(TEST_OUT)/,$(UNITS)): $(TEST_OUT)/%: $(OBJ)/test/unit/%.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lcmocka -lprotobuf-c -lpthread -lm
$(addprefix $(TEST_OUT)/,$(RUNTIME_UNITS)): $(TEST_OUT)/%: $(OBJ)/test/unit/%.o $(RUNTIME_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CXX) $(SAN) -fopenmp -o $@ $^ -lcmocka -lcjson -lzip -lpthread -lm
$(TEST_OUT)/%_fuzz: $(OBJ)/test/fuzz/%.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm
$(TEST_OUT)/ir_run: $(OBJ)/test/ir/run.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm
$(TEST_OUT)/interpret_golden: $(OBJ)/test/reference/interpret_golden.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lcjson -lprotobuf-c -lpthread -lm
$(TEST_OUT)/interpret_conformance: $(addprefix $(OBJ)/test/conformance/,interpret.o interpret_gradients.o gradients.o) $(OBJ)/runtime/trainer/differences.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm
$(TEST_OUT)/field_gradients: $(OBJ)/test/field/gradients.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm
$(TEST_OUT)/make_bad_models: $(OBJ)/test/error/make_bad_models.o $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm
$(TEST_OUT)/kernels: $(OBJ)/test/kernels/kernels.o $(TEST_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm


# ---- ONNX's node tests ----
BLAS_INCLUDE := $(firstword $(wildcard /usr/include/*/openblas-openmp /usr/include/openblas-openmp))
$(OBJ)/runtime/device/blas_host.o $(OBJ)/runtime/device/conv_host.o: CFLAGS += $(addprefix -I,$(BLAS_INCLUDE))
$(addprefix $(OBJ)/test/conformance/,runner.o runner_gradients.o): $(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC       $<"; $(CC) -std=gnu11 $(CFLAGS) $(SAN) $(WARN) -I. -MMD -c -o $@ $<
$(TEST_OUT)/conformance_batch: $(OBJ)/test/conformance/batch.o $(OBJ)/test/conformance/case.o $(OBJ)/test/conformance/lists.o $(OBJ)/test/conformance/gradients.o $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm
$(TEST_OUT)/conformance_runner.a: $(OBJ)/test/conformance/runner.o $(OBJ)/test/conformance/runner_gradients.o $(RUNTIME_OBJ) $(OBJ)/runtime/device/blas_host.o $(OBJ)/runtime/device/conv_host.o
	@mkdir -p $(@D)
	@echo "  AR       $@"; rm -f $@; ar rcs $@ $^
conformance: $(TEST_OUT)/conformance_batch $(TEST_OUT)/conformance_runner.a
	@TEST_OUT=$(TEST_OUT) JOBS=$(JOBS) bash test/conformance/run.sh
conformance-gradients: $(TEST_OUT)/conformance_batch $(TEST_OUT)/conformance_runner.a
	@TEST_OUT=$(TEST_OUT) JOBS=$(JOBS) bash test/conformance/run.sh -v gradients

# One line a test; a script's label is its folder.
$(TEST_OUT)/CTestTestfile.cmake: test/tests.mk $(SCRIPTS) $(wildcard test/unit/*.c)
	@mkdir -p $(@D)
	@{ for u in $(UNITS) $(RUNTIME_UNITS); do \
	     echo "add_test(unit.$$u \"$(TEST_OUT)/$$u\")"; \
	     echo "set_tests_properties(unit.$$u PROPERTIES LABELS unit TIMEOUT $(if $(SANITIZE),1500,300) WORKING_DIRECTORY \"$(CURDIR)\")"; \
	   done; \
	   for s in $(SCRIPTS); do \
	     label=$$(basename $$(dirname $$s)); name=$$label.$$(basename $$s .sh); \
	     echo "add_test($$name bash \"$$s\")"; \
	     echo "set_tests_properties($$name PROPERTIES LABELS $$label TIMEOUT $(if $(SANITIZE),7200,1500) SKIP_RETURN_CODE 77 WORKING_DIRECTORY \"$(CURDIR)\" ENVIRONMENT \"DISC_GEN=$(abspath $(BIN));TEST_OUT=$(TEST_OUT);OMP_NUM_THREADS=1$(if $(SANITIZE),;SANITIZE=$(SANITIZE);SANITIZERS=$(SAN))\")"; \
	   done; } >$@

# ---- speed ----
# speed: against PyTorch, on the models of ../shared/bench: make bench [PYTHON=/with/torch/bin/python] [MODELS=gpt2_10m,resnet] [ROUNDS=3]
# lengths: batches as long as they are against padded ones.  memory: peak and time against the budget, as pictures in docs/
# canaries: what guards and the checks of a batch cost beside a step
PYTHON ?= python3
PARTS  ?= speed lengths memory canaries
bench: $(BIN) $(addprefix bench-,$(PARTS))
.PHONY: bench-speed bench-lengths bench-memory bench-canaries
bench-speed: $(BIN)
	@python3 test/bench/bench.py $(BIN) --python $(PYTHON) $(if $(MODELS),--models $(MODELS)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(STEPS),--steps $(STEPS))
bench-lengths: $(BIN)
	@python3 test/bench/lengths.py $(BIN) --python $(PYTHON) $(if $(ROUNDS),--rounds $(ROUNDS))
bench-memory: $(BIN)
	@python3 test/bench/sweep.py $(BIN) $(if $(ROUNDS),--rounds $(ROUNDS))
bench-canaries: $(BIN)
	@bash test/bench/canaries.sh $(BIN)
