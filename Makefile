# disc-gen: the compiler, its tests and its demonstration.
#
#   make            bin/disc-gen
#   make demo       installs what is missing, builds, generates, trains a small GPT on this project's own source
#   make test       builds and runs the tests through CTest (all but the labels gpu and long); DEVICE=cuda: the GPU's alone
#   make bench      times the models of ../shared/bench against PyTorch, where both are: PYTHON=/its/python; and, PARTS="lengths memory canaries"
#                   alone, batches as long as they are against padded ones, memory against time, what guards cost beside a step
#   make install    PREFIX=/usr/local
#
# Everything that is built goes to bin/ and out/.

CC      ?= cc
CFLAGS  ?= -O2 -g
PREFIX  ?= /usr/local
WARN    := -Wall -Wextra -Wshadow -Werror
GEN     := out/gen
OBJ     := out/obj
ifdef SANITIZE
OBJ     := out/obj-sanitize
BIN     := out/sanitize/disc-gen
SAN     := -fsanitize=address,undefined -fno-sanitize-recover=all
else
BIN     := bin/disc-gen
endif

INCLUDE := -Igenerator -I$(GEN)
SOURCES := $(wildcard generator/*.c generator/*/*.c)
OBJECTS := $(patsubst generator/%.c,$(OBJ)/%.o,$(SOURCES)) $(OBJ)/onnx.pb-c.o $(OBJ)/embedded.o
# The search for plans runs when a program is generated, too.
OBJECTS += $(patsubst %,$(OBJ)/runtime/controller/%.o,flow simulate ladder search offsets realise)
LIBRARY := $(filter-out $(OBJ)/main.o $(OBJ)/options.o,$(OBJECTS))

.PHONY: all check-tools tools demo clean install uninstall
all: $(BIN)

# ---- what must be there ----
# Debian's and Ubuntu's packages: to build, to run what is generated, to test.
PACKAGES := gcc g++ make protobuf-c-compiler libprotobuf-c-dev libcjson-dev libzip-dev libopenblas-openmp-dev libcmocka-dev cmake python3

check-tools:
	@missing=; \
	command -v protoc-c >/dev/null || missing="$$missing protobuf-c-compiler"; \
	echo '#include <protobuf-c/protobuf-c.h>' | $(CC) -E - >/dev/null 2>&1 || missing="$$missing libprotobuf-c-dev"; \
	if [ -n "$$missing" ]; then echo "disc-gen needs:$$missing; make tools installs all it needs, or: apt-get install$$missing"; exit 1; fi

# Installs what is missing, saying so; without root it prints the line to run.
tools:
	@missing=; for p in $(PACKAGES); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'install ok' || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	root=; if [ "$$(id -u)" != 0 ]; then root="sudo -n"; $$root true 2>/dev/null || { echo "Missing packages. Run:"; echo "  sudo apt-get install$$missing"; exit 1; }; fi; \
	echo "Installing$$missing"; \
	$$root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$root apt-get install -y -qq --no-install-recommends $$missing >/dev/null

$(GEN)/onnx.pb-c.c $(GEN)/onnx.pb-c.h &: generator/onnx/onnx.proto | check-tools
	@mkdir -p $(GEN)
	@echo "  PROTOC   $<"; protoc-c --c_out=$(GEN) -Igenerator/onnx $<

include generator/emit/embed.mk

$(BIN): $(OBJECTS)
	@mkdir -p $(@D)
	@echo "  LINK     $@"; $(CC) $(CFLAGS) $(SAN) -o $@ $^ -lprotobuf-c -lpthread -lm

$(OBJ)/%.o: generator/%.c $(GEN)/onnx.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC       $<"; $(CC) -std=gnu11 $(CFLAGS) $(SAN) $(WARN) $(INCLUDE) -MMD -c -o $@ $<

$(OBJ)/onnx.pb-c.o: $(GEN)/onnx.pb-c.c
	@mkdir -p $(@D)
	@echo "  CC       $<"; $(CC) -std=gnu11 $(CFLAGS) $(SAN) -w $(INCLUDE) -c -o $@ $<

# A small GPT learns this project's own source: CUDA where nvcc and a GPU are, else the processor.
demo: tools
	@$(MAKE) --no-print-directory -j2 all
	@models/demo/run.sh

include test/tests.mk

-include $(shell find out -name '*.d' 2>/dev/null)

install: $(BIN)
	install -D $(BIN) $(DESTDIR)$(PREFIX)/bin/disc-gen

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/disc-gen

clean:
	rm -rf bin out
