# SPDX-License-Identifier: MIT
#
# `make help` prints the lines that begin with two blanks.
#  make                      the libraries, the registry and the tools, in BUILD (build)
#  make demo                 show the main job
#  make check                run all tests; T=WORDS: those whose file name contains one of the words
#  make check-unit           run the unit and contract tests
#  make check-e2e            run the end-to-end tests
#  make check-one T=NAME     run one test file: unit_name, access, access.bats
#  make check-gpu            run tests and measurements on the GPU of this host
#  make deps                 install the packages that building and testing need
#  make install, uninstall   below PREFIX (/usr/local); DESTDIR goes before it
#  make deb, wheel, bundle   Debian packages, the Python package, a test bundle for another GPU host
#  make lint, analyze        check the style; run clang's analyzer
#  make fuzz, fuzz-long      run the fuzzers for a minute; for an hour each
#  make soak, faults, model  run the long tests: many processes; failing calls; the protocol's model
#  make bench, coverage      measure the cost; measure what the tests reach
#  make mutants              count how many seeded faults the tests find (hours)
#  make clean                remove BUILD
#
#  V=1 shows the commands. BUILD=dir builds elsewhere. WERROR=1 makes warnings errors, as CI does.
#  SANITIZE=address,undefined instruments. CUDA= ignores the toolkit. ARCH=aarch64 builds for that
#  machine, in build-aarch64.

# Several goals of one command are made one after the other, because some start a make of their own.
ifneq ($(word 2,$(MAKECMDGOALS)),)
.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	@+$(MAKE) --no-print-directory $@
else

HOST_ARCH := $(shell uname -m)
ARCH := $(HOST_ARCH)
CROSS := $(if $(filter-out $(HOST_ARCH),$(ARCH)),$(ARCH)-linux-gnu-)
BUILD ?= build$(if $(CROSS),-$(ARCH))
# Give a folder one name, however BUILD spells it: the compiler's dependency files contain that name.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
CFLAGS ?= -O2 -g
PROTOC ?= /usr/bin/protoc
NANOPB ?= /usr/bin/protoc-gen-nanopb
HOST_CC ?= gcc
OBJCOPY ?= $(CROSS)objcopy
ifeq ($(origin CC),default)
CC := $(CROSS)gcc
endif
ifeq ($(origin AR),default)
AR := $(CROSS)ar
endif
export ARCH BUILD CC COVERAGE CROSS HOST_CC PROTOC NANOPB SANITIZE WERROR

VERSION := $(shell sed -n 's/^.define GPUSHARE_VERSION "\(.*\)"/\1/p' include/gpushare.h)
CUDA := $(firstword $(foreach d,$(CUDA_HOME) /usr/local/cuda \
	$(patsubst %/bin/nvcc,%,$(shell command -v nvcc)),$(if $(wildcard $(d)/include/cuda.h),$(d))))
NVCC := $(firstword $(wildcard $(CUDA)/bin/nvcc))

comma := ,
Q := $(if $(V),,@)
say = $(if $(V),@:,@printf '  %-6s %s\n' $(1) $(2))
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
# the linker's name of the static archive if it exists, else of the shared library
archive = $(if $(findstring /,$(shell $(CC) -print-file-name=lib$(1).a 2>/dev/null)),-l:lib$(1).a,$(2))

# A newer compiler has new warnings: they stop CI, but not a user's build.
ERROR := $(if $(WERROR),-Werror)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(ERROR) \
	$(if $(findstring clang,$(shell $(CC) --version 2>&1)),-Wno-microsoft-anon-tag,-Wno-format-truncation $(if $(filter thread,$(SANITIZE)),-Wno-tsan))
SANFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ifneq ($(COVERAGE),)
COUNTED := --coverage -fprofile-update=atomic -fprofile-abs-path
FLUSH := $(BUILD)/coverage/flush.o
COUNTED_LINK := --coverage $(patsubst %,-Wl$(comma)--wrap=%,_exit __gcov_exit __gcov_dump) $(FLUSH)
endif
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE $(CFLAGS) $(WARN) -fPIC -MD -MP -ffile-prefix-map=$(CURDIR)=. -Iinclude \
	-ffunction-sections -fdata-sections $(patsubst %,-iquote %,registry/protocol shim tools $(BUILD)/gen) -idirafter registry $(SANFLAGS)
ALL_LDFLAGS = $(LDFLAGS) $(SANFLAGS) $(COUNTED_LINK) -pthread -Wl,--as-needed
SO_LDFLAGS = -shared -Wl,--gc-sections -Wl,-z,now -Wl,-Bsymbolic-functions -Wl,--exclude-libs,ALL -Wl,-z,defs
NANOPB_LIB := $(call archive,protobuf-nanopb,-lprotobuf-nanopb)
TLS_LIBS := $(foreach part,mbedtls mbedx509 mbedcrypto,$(call archive,$(part),-l$(part)))
NNG_LIBS := $(if $(findstring -l:,$(TLS_LIBS)),$(call archive,nng,-lnng),-lnng) $(TLS_LIBS)
JANSSON_LIB := $(call archive,jansson,-ljansson)
CURSES_LIB := $(call archive,ncursesw,-lncursesw) $(call archive,tinfo,-ltinfo)
NETTLE_LIB := $(call archive,nettle,-lnettle)
PNG_LIB := $(call archive,png16,-lpng16) $(call archive,z,-lz)

# The objects of each product, from the names of the source files.
objects = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(filter-out $(2),$(wildcard $(1)))))
PROVEN := shim/cuda/cuda_abi_types.c shim/cuda/cuda_abi_calls.c # against a toolkit, shipped nowhere
PROTOCOL := $(call objects,registry/protocol/*.c) $(BUILD)/obj/gen/registry.pb.o
CLIENT := $(call objects,$(addprefix shim/,base/*.c client/*.c cuda/*.c core/buffer/*.c core/order/*.c),$(PROVEN)) $(PROTOCOL)
API := $(call objects,$(addprefix shim/,api/*.c core/*.c core/copy/*.c core/map/*.c)) $(CLIENT)
SHIM := $(call objects,shim/preload/*.c shim/preload/dlsym_$(ARCH).S) $(CLIENT)
SHIM_FOLDERS := $(addprefix shim/,base cuda client core core/buffer core/order core/copy core/map api preload)
REGISTRY_FOLDERS := registry $(addprefix registry/,state observe os order fdstore persist verbs server)
REGISTRY := $(call objects,$(addsuffix /*.c,$(REGISTRY_FOLDERS))) $(BUILD)/obj/gen/state.pb.o $(PROTOCOL)
TOOLS_FOLDERS := $(addprefix tools/,common data copy doctor top node cli)
TOOLS_ALL := $(call objects,$(addsuffix /*.c,$(TOOLS_FOLDERS))) $(BUILD)/obj/gen/node.pb.o
PROOF := $(if $(CUDA),$(patsubst %.c,$(BUILD)/obj/%.o,$(PROVEN)))
SIM := $(addprefix $(BUILD)/sim/,libcuda.so.1 libcuda.so libcudart.so.13 libcudart.so libcudart_static.a libvulkan.so.1 libnvidia-ml.so.1)

PRODUCTS := $(addprefix $(BUILD)/,libgpushare_shim.so libgpushare.so.0 libgpushare.so libgpushare.a \
	gpushare-registry gpushare gpushare-attach)

all: $(BUILD)/.checked
	@$(MAKE) --no-print-directory $(jobs) products
products: $(PRODUCTS) $(PROOF) $(SIM)
	$(if $(CUDA),,@echo "skipped: $(PROVEN): no CUDA toolkit (CUDA_HOME, /usr/local/cuda, nvcc on PATH)")

# Check once for what building needs, so that a missing package doesn't give a compiler error for each file.
$(BUILD)/.checked: tests/deps.sh
	@tests/deps.sh --check
	@mkdir -p $(BUILD) && touch $@

$(BUILD)/gen/registry.pb.c: registry/protocol/registry.proto registry/protocol/registry.options
	$(call say,NANOPB,$@)
	@mkdir -p $(@D)
	$(Q)cd registry/protocol && $(PROTOC) -I. --plugin=protoc-gen-nanopb=$(NANOPB) \
		--nanopb_out=$(abspath $(@D)) registry.proto
# imports(name, folder): a schema that imports the registry's
define imports
$(BUILD)/gen/$(1).pb.c: $(2)/$(1).proto $(2)/$(1).options $(wildcard registry/protocol/registry.[po]*)
	$$(call say,NANOPB,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(PROTOC) -I$(2) -Iregistry/protocol --plugin=protoc-gen-nanopb=$$(NANOPB) \
		--nanopb_opt="-I$(2) -Iregistry/protocol" --nanopb_out=$$(abspath $$(@D)) $(1).proto
endef
$(eval $(call imports,state,registry/persist))
$(eval $(call imports,node,tools/node))
PB_HEADERS := $(patsubst %,$(BUILD)/gen/%.pb.h,registry state node)
$(PB_HEADERS): %.h: %.c ;

# Record the flags in the build folder: other flags or a changed makefile rebuild it.
FLAGS_NOW = $(CC) $(CFLAGS) $(SANITIZE) $(COVERAGE) $(CUDA) $(WERROR)
ifneq ($(strip $(FLAGS_NOW)),$(strip $(shell cat $(BUILD)/.flags 2>/dev/null)))
$(BUILD)/.flags: FORCE
endif
$(BUILD)/.flags: export NOW = $(FLAGS_NOW)
$(BUILD)/.flags: Makefile tests/tests.mk
	@mkdir -p $(BUILD) && printf '%s\n' "$$NOW" >$@
# Record the linker's flags and the list of sources too: if they change, the products are linked again.
LINKED_NOW = $(LDFLAGS) $(NNG_LIBS) $(sort $(wildcard $(patsubst %,%/*.[cS],$(REGISTRY_FOLDERS) registry/protocol $(SHIM_FOLDERS) $(TOOLS_FOLDERS) \
	tests/unit tests/contract tests/sim tests/fuzz)))
ifneq ($(strip $(LINKED_NOW)),$(strip $(shell cat $(BUILD)/.linked 2>/dev/null)))
$(BUILD)/.linked: FORCE
endif
$(BUILD)/.linked: export NOW = $(LINKED_NOW)
$(BUILD)/.linked: Makefile tests/tests.mk
	@mkdir -p $(BUILD) && printf '%s\n' "$$NOW" >$@
parts = $(filter %.o %.a,$^)
FORCE:

$(BUILD)/obj/%.o: VISIBILITY := -fvisibility=hidden
# Unit tests are counted too, because some include a whole source file.
$(BUILD)/obj/registry/%.o $(BUILD)/obj/shim/%.o $(BUILD)/obj/tests/unit/%.o: SANFLAGS += $(COUNTED)
# These objects are not instrumented: the sanitizer calls our dlsym before its own start is complete, and autostart runs
# on stacks that the sanitizer does not know.
$(addprefix $(BUILD)/obj/shim/,cuda/driver.o preload/shim_lookup.o preload/shim_route.o preload/shim_unload.o client/autostart.o): SANFLAGS := $(COUNTED)
# utlist asserts, but the shim must never abort a program.
$(BUILD)/obj/shim/%.o: ALL_CFLAGS += -DNDEBUG
$(BUILD)/obj/shim/cuda/cuda_abi_%.o: ALL_CFLAGS += -isystem $(CUDA)/include
$(BUILD)/obj/%.o: %.c $(BUILD)/.flags $(FLUSH) | $(PB_HEADERS)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(VISIBILITY) -c $< -o $@
# Code that runs seldom is compiled for size, because it is resident in every preloaded program.
SELDOM := $(addprefix client/,client client_fds client_reach client_self client_wait client_wire autostart) \
	$(addprefix preload/,rules_error rules_options rules_parse shim_attach shim_link shim_pages shim_resync \
	shim_share shim_when)
$(patsubst %,$(BUILD)/obj/shim/%.o,$(SELDOM)) $(addprefix $(BUILD)/obj/registry/protocol/,codec.o directory.o): ALL_CFLAGS += \
	$(if $(filter -O2,$(CFLAGS)),-Os)
# Autostart's child runs in its parent's memory until its execve(), and shares its parent's coverage counters.
$(BUILD)/obj/shim/client/autostart.o: ALL_CFLAGS += $(if $(COVERAGE),-fno-builtin-execve)
$(BUILD)/coverage/%.o: tests/coverage_%.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -fPIC -fvisibility=hidden -DCOUNTS='"$(abspath $(BUILD))/counts"' -c $< -o $@
$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/.flags | $(PB_HEADERS)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fvisibility=hidden -c $< -o $@
$(BUILD)/obj/%.o: %.S $(BUILD)/.flags
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -MMD -MP -Ishim -c $< -o $@

$(BUILD)/gen/shim.sym: shim/preload/shim.sym shim/preload/shim_list.h
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -x c -Ishim $< -o $@
$(BUILD)/libgpushare_shim.so: $(SHIM) $(BUILD)/gen/shim.sym
	$(call say,LD,$@)
	$(Q)$(CC) $(SO_LDFLAGS) -Wl,-z,nodelete -Wl,--version-script=$(BUILD)/gen/shim.sym $(SHIM) $(NANOPB_LIB) \
		$(ALL_LDFLAGS) -ldl -o $@
$(BUILD)/libgpushare.so.0: $(API) shim/api/libgpushare.sym
	$(call say,LD,$@)
	$(Q)$(CC) $(SO_LDFLAGS) -Wl,-soname,libgpushare.so.0 -Wl,--version-script=shim/api/libgpushare.sym \
		$(API) $(NANOPB_LIB) $(ALL_LDFLAGS) -ldl -o $@
$(BUILD)/libgpushare.so: $(BUILD)/libgpushare.so.0
	$(Q)ln -sf $(<F) $@
# The archive is one object that exports only the API, so that a program can have its own `client_new`.
$(BUILD)/libgpushare.a: $(API)
	$(call say,AR,$@)
	$(Q)$(CC) -r -nostdlib $(API) $(NANOPB_LIB) $(if $(COVERAGE),$(COUNTED_LINK) -lgcov) -o $(BUILD)/obj/libgpushare.o
	$(Q)$(OBJCOPY) --wildcard --keep-global-symbol='gpushare_[a-z]*' $(BUILD)/obj/libgpushare.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(BUILD)/obj/libgpushare.o
$(BUILD)/gpushare-registry: $(REGISTRY)
	$(call say,LD,$@)
	$(Q)$(CC) $(parts) $(NANOPB_LIB) $(NNG_LIBS) $(ALL_LDFLAGS) -o $@
$(BUILD)/gpushare: $(TOOLS_ALL) $(call objects,shim/preload/rules*.c shim/preload/shim_when.c) $(PROTOCOL) $(BUILD)/libgpushare.a
	$(call say,LD,$@)
	$(Q)$(CC) $(parts) $(NANOPB_LIB) $(JANSSON_LIB) $(NETTLE_LIB) $(PNG_LIB) -lsmartcols $(CURSES_LIB) $(TLS_LIBS) $(ALL_LDFLAGS) -lm -ldl -o $@
$(BUILD)/gpushare-attach: $(BUILD)/gpushare
	$(Q)ln -sf $(<F) $@

$(filter-out %/libgpushare.so %/gpushare-attach,$(PRODUCTS)): $(BUILD)/.linked

include tools/python/python.mk
include tests/tests.mk
include tools/packages/packages.mk

deps:
	@tests/deps.sh
help:
	@sed -n 's/^#  //p' Makefile

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
.PHONY: all products deps help clean FORCE
.DELETE_ON_ERROR:
.PRECIOUS: $(BUILD)/obj/%.o $(BUILD)/coverage/%.o
.SUFFIXES:
endif
