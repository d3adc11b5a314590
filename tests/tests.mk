# SPDX-License-Identifier: MIT
# Tests, demo, bundle. Included by the Makefile.
# RUNTIME says which runtime the plain CUDA programs are linked with: `cuda`, the toolkit's, or `sim`, ours.
CUDA_RT := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(addprefix $(CUDA)/,lib64 \
	targets/$(ARCH)-linux/lib targets/sbsa-linux/lib lib))))
RUNTIME ?= sim
bin := $(BUILD)/tests/bin
RUN := tests/run
EMULATOR := $(if $(CROSS),qemu-$(ARCH))
export EMULATOR
TOOLKIT_INCLUDE = $(if $(CUDA),-isystem $(CUDA)/include,-Itests/sim/include)

# The simulated driver stands for somebody else's library, so it is never instrumented, like the programs that load it.
SIM_DRIVER := $(call objects,tests/sim/driver_*.c)
SIM_RUNTIME := $(call objects,tests/sim/runtime_*.c)
$(BUILD)/obj/tests/sim/%.o: SANFLAGS :=
$(BUILD)/obj/tests/sim/%.o: VISIBILITY := -fvisibility=default
$(BUILD)/obj/tests/sim/runtime_%.o: ALL_CFLAGS += -Itests/sim/include
# Segments are aligned to 64 KiB, so that an older driver has the same size and can be mapped where this one was.
SIM_LINK := -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,max-page-size=65536
$(BUILD)/sim/libcuda.so.1: $(SIM_DRIVER)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SIM_LINK) $(parts) -pthread -ldl -o $@
$(BUILD)/sim/libvulkan.so.1: $(call objects,tests/sim/vulkan_*.c)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,-z,defs $(parts) -pthread -o $@
$(BUILD)/sim/libnvidia-ml.so.1: $(call objects,tests/sim/nvml.c)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-z,defs $(parts) -o $@
# Older drivers, built from what differs: one without cuGetProcAddress_v2, one also without cuGetProcAddress.
# older(name, objects to compile again, objects to leave out, flags)
define older
$(BUILD)/obj/$(1)/%.o: %.c $(BUILD)/.flags
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(ALL_CFLAGS) $(4) -c $$< -o $$@
$(BUILD)/obj/$(1)/%.o: SANFLAGS :=
$(BUILD)/sim/$(1)/libcuda.so.1: $(filter-out $(2) $(3),$(SIM_DRIVER)) \
		$(subst /obj/,/obj/$(1)/,$(filter $(2),$(SIM_DRIVER)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $(SIM_LINK) $$(parts) -pthread -ldl -o $$@
SIM_OLDER += $(BUILD)/sim/$(1)/libcuda.so.1
endef
$(eval $(call older,old,%/driver_state.o %/driver_proc.o,,-DSIM_CUDA=11080))
$(eval $(call older,ancient,%/driver_state.o,%/driver_proc.o,-DSIM_CUDA=11020))
# Each runtime has its own soname, symbol version and way to find the driver. cudart(version, generation)
define cudart
$(BUILD)/obj/cudart$(2)/%.o: %.c $(BUILD)/.flags
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(ALL_CFLAGS) -Itests/sim/include -DSIM_CUDART=$(2) -c $$< -o $$@
$(BUILD)/obj/cudart$(2)/%.o: SANFLAGS :=
$(BUILD)/sim/libcudart.so.$(1): $(filter-out %/runtime_lookup.o,$(SIM_RUNTIME)) \
		$(BUILD)/obj/cudart$(2)/tests/sim/runtime_lookup.o tests/sim/runtime.map
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && sed 's/@SONAME@/$$(@F)/' tests/sim/runtime.map >$$@.map
	$$(Q)$$(CC) -shared -Wl,-soname,$$(@F) -Wl,-Bsymbolic -Wl,-z,defs -Wl,--version-script=$$@.map \
		$$(filter %.o,$$^) -pthread -ldl -o $$@ && rm $$@.map
SIM_CUDARTS += $(BUILD)/sim/libcudart.so.$(1)
endef
$(eval $(call cudart,11.0,11))
$(eval $(call cudart,12,12))
$(eval $(call cudart,13,13))
$(BUILD)/sim/libcudart_static.a: $(SIM_RUNTIME)
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $(parts)
$(BUILD)/sim/libcuda.so: $(BUILD)/sim/libcuda.so.1
	$(Q)ln -sf $(<F) $@
$(BUILD)/sim/libcudart.so: $(BUILD)/sim/libcudart.so.13
	$(Q)ln -sf $(<F) $@
$(addprefix $(BUILD)/sim/,libcuda.so.1 libvulkan.so.1 libnvidia-ml.so.1 libcudart_static.a) $(SIM_OLDER) $(SIM_CUDARTS): $(BUILD)/.linked

# A table of function pointers sets the arguments of a test, a fake or a verb, used or not.
$(BUILD)/obj/tests/%.o: ALL_CFLAGS += -Wno-unused-parameter

# cmocka programs: each links what it uses from one archive of all our objects.
# The archive leaves out our dlsym, which would replace the C library's in the test.
ALL_OBJECTS := $(filter-out %/dlsym_$(ARCH).o,$(sort $(API) $(SHIM) $(REGISTRY) $(TOOLS_ALL)))
$(BUILD)/libunits.a: $(ALL_OBJECTS) $(BUILD)/.linked
	$(Q)rm -f $@ && $(AR) rcs $@ $(parts)
UNITS := $(patsubst tests/%.c,%,$(wildcard tests/unit/unit_*.c tests/contract/contract_*.c))
UNIT_HELPERS := $(call objects,tests/unit/*.c,tests/unit/unit_%)
CONTRACT_HELPERS := $(call objects,tests/contract/*.c,tests/contract/contract_%)
CMOCKA := $(addprefix $(BUILD)/tests/,$(notdir $(UNITS)))
UNIT_LIBS = $(BUILD)/libunits.a $(NANOPB_LIB) $(NNG_LIBS) $(JANSSON_LIB) $(CURSES_LIB) $(NETTLE_LIB) $(PNG_LIB) -lcmocka $(ALL_LDFLAGS) -lm -ldl
$(BUILD)/obj/tests/unit/%.o $(BUILD)/obj/tests/contract/%.o: ALL_CFLAGS += $(patsubst %,-iquote %,tests tests/unit tests/contract)
$(BUILD)/tests/unit_%: $(BUILD)/obj/tests/unit/unit_%.o $(UNIT_HELPERS) $(BUILD)/libunits.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(filter %.o,$^) $(UNIT_LIBS) -o $@
$(BUILD)/tests/contract_%: $(BUILD)/obj/tests/contract/contract_%.o $(CONTRACT_HELPERS) $(BUILD)/libunits.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(filter %.o,$^) $(UNIT_LIBS) -o $@

# Fuzzers: for each, a test that replays what it has found, and the fuzzer itself, built by clang in its own folder.
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TESTS := $(addprefix $(BUILD)/tests/unit_fuzz_,$(FUZZERS))
$(BUILD)/obj/tests/fuzz/%.o: ALL_CFLAGS += -iquote tests/fuzz
$(FUZZ_TESTS): $(BUILD)/tests/unit_fuzz_%: $(addprefix $(BUILD)/obj/tests/fuzz/,fuzz_%.o replay.o) $(BUILD)/libunits.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(filter %.o,$^) $(UNIT_LIBS) -o $@
# The fuzzers link only the code that they can reach, because clang compiles it slowly.
FUZZED := $(sort $(REGISTRY) $(CLIENT) $(call objects,shim/preload/rules*.c $(addprefix tools/data/,npy*.c dtype.c shape.c) \
	tools/node/message.c) $(BUILD)/obj/gen/node.pb.o)
$(BUILD)/libfuzzed.a: $(FUZZED) $(BUILD)/.linked
	$(Q)rm -f $@ && $(AR) rcs $@ $(parts)
$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/libfuzzed.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $< $(subst libunits,libfuzzed,$(UNIT_LIBS)) -fsanitize=fuzzer -o $@
fuzzers: $(addprefix $(BUILD)/fuzz/,$(FUZZERS))

# Programs that the tests start. program(source, name, link flags, also needs)
define program
$(bin)/$(2): $(BUILD)/obj/$(basename $(1)).o $(4)
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$< $(3) -pthread -ldl -o $$@
PROGRAMS += $(bin)/$(2)
endef
from = $(wildcard $(patsubst %,tests/%/$(1)_*.c,e2e/programs gpu bench chaos faults))
each = $(foreach s,$(1),$(eval $(call program,$(s),$(notdir $(basename $(s)))$(2),$(3),$(4))))
$(BUILD)/obj/tests/e2e/programs/%.o $(BUILD)/obj/tests/gpu/%.o $(BUILD)/obj/tests/demo/%.o: ALL_CFLAGS += $(TOOLKIT_INCLUDE)
# Programs that stand for unmodified ones are not instrumented; programs that link our library are.
$(foreach k,rt drv lib app,$(eval $(patsubst %,$(BUILD)/obj/tests/%/$(k)_%.o,e2e/programs gpu chaos faults): SANFLAGS :=))
$(BUILD)/obj/tests/demo/painter.o: SANFLAGS :=
$(BUILD)/obj/tests/e2e/programs/%.o $(BUILD)/obj/tests/gpu/%.o $(BUILD)/obj/tests/chaos/%.o $(BUILD)/obj/tests/faults/%.o: VISIBILITY := -fvisibility=default

ifeq ($(RUNTIME),cuda)
RT_LIBS := -L$(dir $(CUDA_RT)) -Wl,-rpath,'$$$$ORIGIN/../lib:$(dir $(CUDA_RT))'
RT_DEPS := $(BUILD)/tests/.runtime
else
RT_LIBS := -L$(BUILD)/sim -Wl,-rpath,'$$$$ORIGIN/../lib'
RT_DEPS := $(BUILD)/tests/.runtime $(BUILD)/sim/libcudart.so $(BUILD)/sim/libcudart_static.a
endif
ifneq ($(RUNTIME),$(shell cat $(BUILD)/tests/.runtime 2>/dev/null))
$(BUILD)/tests/.runtime: FORCE
endif
$(BUILD)/tests/.runtime:
	@mkdir -p $(@D) && echo $(RUNTIME) >$@
$(call each,$(call from,rt) tests/demo/painter.c,_static,$(RT_LIBS) -l:libcudart_static.a -lrt,$(RT_DEPS))
$(call each,$(call from,rt) tests/demo/painter.c,_shared,$(RT_LIBS) -lcudart,$(RT_DEPS))
# Programs for older runtimes are linked with our stand-ins; on a GPU they run with what tests/gpu/runtimes.sh brings.
$(foreach v,11.0 12,$(call each,$(wildcard tests/gpu/rt_*.c) \
	$(addprefix tests/e2e/programs/,rt_app.c rt_thread.c),_$(basename $(v)),-L$(BUILD)/sim -l:libcudart.so.$(v) \
	-Wl$(comma)-rpath$(comma)'$$$$ORIGIN/../lib',$(BUILD)/sim/libcudart.so.$(v)))
$(call each,tests/e2e/programs/drv_linked.c,,-L$(BUILD)/sim -Wl$(comma)--no-as-needed -lcuda,$(BUILD)/sim/libcuda.so)
$(call each,tests/e2e/programs/drv_linked.c,_early,-L$(BUILD)/sim -L$(bin) -Wl$(comma)-rpath$(comma)'$$$$ORIGIN' \
	-Wl$(comma)--no-as-needed -l:lib_linked_early.so -lcuda,$(BUILD)/sim/libcuda.so $(bin)/lib_linked_early.so)
$(call each,tests/e2e/programs/drv_static.c,,-static)
$(call each,$(filter-out %/drv_linked.c %/drv_static.c,$(call from,drv)) $(call from,app),)
$(call each,$(call from,tool),,$$(SANFLAGS))
$(call each,$(call from,api) $(call from,host) $(addprefix tests/demo/,retoucher.c ring_producer.c ring_consumer.c),,$$(SANFLAGS) -L$(BUILD) \
	-Wl$(comma)-rpath$(comma)'$$$$ORIGIN/../..' -lgpushare,$(BUILD)/libgpushare.so)
# Peers of the registry that have their own code for its protocol.
$(call each,$(addprefix tests/e2e/programs/,fair_peer.c liar_peer.c),,$$(SANFLAGS) $$(COUNTED_LINK) $(BUILD)/libunits.a $(NANOPB_LIB),$(BUILD)/libunits.a)
# Programs that time the library from inside link its objects and wrap some of the client's calls.
$(call each,$(wildcard tests/gpu/cost_*.c),,$$(SANFLAGS) $$(COUNTED_LINK) $(patsubst %,-Wl$(comma)--wrap=client_%,call exchange_fds) \
	$(BUILD)/libunits.a $(NANOPB_LIB),$(BUILD)/libunits.a)
# A program for gpushare.hpp, built by each installed C++ compiler: cpp_app_g++, cpp_app_clang++.
CXXS := $(foreach c,$(if $(CROSS),,$(if $(SANITIZE)$(COVERAGE),$(if $(findstring clang,$(CC)),clang++,g++),g++ clang++)),$(if $(shell \
	command -v $(c)),$(c)))
$(bin)/cpp_app_%: tests/e2e/programs/cpp_app.cpp include/gpushare.hpp include/gpushare.h $(BUILD)/libgpushare.so $(BUILD)/.flags
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D) && $* -std=c++17 -O2 -g -Wall -Wextra $(ERROR) -Iinclude $(or $(SANFLAGS),-static-libstdc++ -static-libgcc) \
		$< -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -lgpushare -o $@
PROGRAMS += $(addprefix $(bin)/cpp_app_,$(CXXS))
# Plug-ins: linked against the driver, with each kind of runtime, or with neither.
$(call each,$(call from,lib_linked),.so,-shared -L$(BUILD)/sim -Wl$(comma)--no-as-needed -lcuda,$(BUILD)/sim/libcuda.so)
$(call each,$(call from,lib_rt),_static.so,-shared $(RT_LIBS) -l:libcudart_static.a -lrt,$(RT_DEPS))
$(call each,$(call from,lib_rt),_shared.so,-shared $(RT_LIBS) -lcudart,$(RT_DEPS))
$(call each,tests/e2e/programs/lib_sysv.c,.so,-shared -Wl$(comma)--hash-style=sysv)
$(call each,tests/e2e/programs/lib_mapping.c,.so,-shared $$(SANFLAGS) $(BUILD)/libgpushare.a,$(BUILD)/libgpushare.a)
# If libucp is installed, another version of it takes all functions but one from there.
UCX_LIB := $(if $(findstring /,$(shell $(CC) -print-file-name=libucp.so.0 2>/dev/null)),-Wl$(comma)--no-as-needed -l:libucp.so.0)
$(call each,tests/e2e/programs/lib_ucx_other.c,.so,-shared $(UCX_LIB))
$(call each,$(filter-out $(call from,lib_linked) $(call from,lib_rt) $(addprefix %/,lib_sysv.c lib_mapping.c lib_ucx_other.c),$(call from,lib)),.so,-shared)
# The probe for a GPU is built first, and needs only a compiler.
$(bin)/probe: tests/gpu/probe.c shim/cuda/cuda_abi.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -Ishim $< -ldl -o $@
# Kernels need nvcc. Each program is built with the static and with the shared runtime.
KERNELS := $(patsubst tests/gpu/%.cu,$(bin)/%,$(wildcard tests/gpu/kernel_*.cu))
NVFLAGS := -O2 -arch=all-major -Iinclude -lineinfo
kernels: $(addsuffix _static,$(KERNELS)) $(addsuffix _shared,$(KERNELS)) $(bin)/kernel_matrix_per_thread
$(bin)/kernel_matrix_per_thread: NVFLAGS += -default-stream per-thread
$(bin)/%_static: tests/gpu/%.cu $(BUILD)/libgpushare.so
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) $(NVFLAGS) $< $(KERNEL_LIBS) -o $@
$(bin)/%_per_thread: tests/gpu/%.cu $(BUILD)/libgpushare.so
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) $(NVFLAGS) $< $(KERNEL_LIBS) -o $@
$(bin)/%_shared: tests/gpu/%.cu $(BUILD)/libgpushare.so
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D) && $(NVCC) $(NVFLAGS) -cudart shared $< $(KERNEL_LIBS) \
		-Xlinker -rpath,'$$ORIGIN/../lib:$(dir $(CUDA_RT))' -o $@
$(bin)/kernel_peer_%: KERNEL_LIBS := -L$(BUILD) -Xlinker -rpath,'$$ORIGIN/../..' -lgpushare

# If this machine can't run what is built, a folder has a launcher for this machine under each program's name, and
# links to the rest of $(BUILD).
ifneq ($(CROSS),)
STAND_INS := $(BUILD)/emulated/.done
$(BUILD)/tests/launcher: tests/launcher.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(HOST_CC) -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra $(ERROR) -static $< -o $@
$(STAND_INS): $(BUILD)/tests/launcher $(PRODUCTS) $(CMOCKA) $(FUZZ_TESTS) $(PROGRAMS) $(bin)/probe $(BUILD)/.linked
	$(Q)rm -rf $(@D) && mkdir -p $(@D)/as $(@D)/tests/bin
	$(Q)ln -s ../sim $(addprefix ../,$(notdir $(filter %.so %.so.0,$(PRODUCTS)))) $(@D)
	$(Q)ln -s $(addprefix ../../../tests/bin/,$(notdir $(filter %.so,$(PROGRAMS)))) $(@D)/tests/bin
	$(Q)for program in $(patsubst $(BUILD)/%,%,$(filter-out %.so %.so.0 %.a,$(PRODUCTS) \
		$(CMOCKA) $(FUZZ_TESTS) $(PROGRAMS) $(bin)/probe)); do \
		ln $< $(@D)/$$program && ln -s $$(command -v $(EMULATOR)) $(@D)/as/$${program##*/} || exit 1; done
	$(Q)touch $@
endif

# Sanitizers see nothing of the simulated driver, so tests/run leaves its contract out.
ifneq ($(SANITIZE),)
CMOCKA := $(filter-out $(BUILD)/tests/contract_%,$(CMOCKA))
endif
# Under the thread sanitizer, only instrumented programs run.
ifeq ($(SANITIZE),thread)
PROGRAMS := $(filter $(addsuffix _%,$(addprefix $(bin)/,api cpp_app host ring tool)),$(PROGRAMS))
endif
unit-tests: products $(CMOCKA) $(FUZZ_TESTS) $(bin)/probe $(STAND_INS)
	@rm -f $(filter-out $^,$(wildcard $(BUILD)/tests/unit_* $(BUILD)/tests/contract_*)) # of sources that are gone
tests: unit-tests $(SIM_OLDER) $(SIM_CUDARTS) $(PROGRAMS) $(if $(filter cuda,$(RUNTIME)),kernels) man
demo-programs: $(PRODUCTS) $(addprefix $(bin)/,probe painter_static painter_shared retoucher) \
		$(if $(filter sim,$(RUNTIME)),$(addprefix $(BUILD)/sim/,libcuda.so.1 libcudart.so.13))

# make bench: a driver whose allocation costs nothing, the stand-in runtime beside it, and a program for each way in
# which programs reach them.
bench := $(BUILD)/bench
BENCH := $(bench)/libcuda.so.1 $(patsubst tests/bench/%.c,$(bench)/%,$(wildcard tests/bench/way_*.c))
$(BUILD)/obj/tests/bench/%.o: SANFLAGS :=
$(bench)/libcuda.so.1: $(BUILD)/obj/tests/bench/driver.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,-z,defs $< -o $@
$(bench)/libcudart.so.13: $(BUILD)/sim/libcudart.so.13
	$(Q)mkdir -p $(@D) && cp $< $@
$(BUILD)/obj/tests/bench/way_runtime.o: ALL_CFLAGS += -Itests/sim/include
$(bench)/way_linked: $(bench)/libcuda.so.1
$(bench)/way_runtime: $(bench)/libcudart.so.13
$(bench)/way_%: $(BUILD)/obj/tests/bench/way_%.o $(call objects,tests/bench/calls.c tests/bench/steps.c)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $^ -pthread -ldl -o $@

# The benchmark of the registry beside other servers: the programs that ask, and `serve`, the other servers.
ASKS := $(patsubst %,$(bench)/%,trips rates many serve)
$(BUILD)/obj/tests/bench/%.o: VISIBILITY := -fvisibility=default
$(ASKS): $(bench)/%: $(BUILD)/obj/tests/bench/%.o $(call objects,tests/bench/ask*.c) $(BUILD)/libunits.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(filter %.o,$^) $(BUILD)/libunits.a $(NANOPB_LIB) $(NNG_LIBS) $(ALL_LDFLAGS) -lm -ldl -o $@
ifeq ($(CROSS)$(SANITIZE),)
tests: $(BENCH) $(ASKS)
endif

# The first output line says which driver the tests use: the probe for it needs only the compiler.
driver:
	@command -v $(CC) >/dev/null || tests/deps.sh
	$(if $(CROSS),,@$(MAKE) -s --no-print-directory $(bin)/probe)
	@$(RUN) --driver
# A package is installed here, before the make that needs it: only a new make finds it.
more: driver
	@tests/deps.sh --more
# What each goal builds before it runs anything.
PROGRAMS_OF = $(or $(PROGRAMS_OF_$(1)),tests)
PROGRAMS_OF_check-unit := unit-tests
PROGRAMS_OF_demo := demo-programs
tested: driver $(if $(filter check check-unit check-e2e check-one,$(MAKECMDGOALS)),more)
	@tests/deps.sh $(if $(filter demo,$(MAKECMDGOALS)),--build)
	@$(MAKE) -s --no-print-directory $(BUILD)/.checked
	@$(MAKE) --no-print-directory $(jobs) $(call PROGRAMS_OF,$(MAKECMDGOALS)) RUNTIME=$$($(RUN) --runtime $(CUDA_RT))
check: tested
	@$(SANITIZED) $(RUN) --said $(T)
check-unit: tested
	@$(SANITIZED) $(RUN) --said /unit_ /contract_
check-e2e: tested
	@$(SANITIZED) $(RUN) --said .bats
check-one: $(if $(T),tested,which)
	@$(SANITIZED) $(RUN) --said --one $(T)
which:
	@echo "gpushare: which test file? make check-one T=unit_name, T=access" >&2; exit 2
demo: tested
	@tests/demo/demo.sh --said
check-gpu: tested
	@tests/gpu/run.sh $(BUILD)/gpu
bundle:
	@tests/deps.sh
	@$(MAKE) --no-print-directory all
	@NVCC=$(NVCC) CUDA_RT=$(CUDA_RT) JOBS=$(or $(jobs),-j) tests/gpu/bundle.sh
lint:
	@tests/lint.sh
# Run scan-build's analyzer without the lint's limit on states.
analyze:
	@[ -e $(BUILD)/gen/node.pb.h ] || $(MAKE) -s --no-print-directory $(PB_HEADERS)
	@tests/analyze/run.sh
# fuzz runs all fuzzers together for a minute, fuzz-long runs each for an hour. FUZZ_SECONDS: seconds of each fuzzer.
fuzz:
	@tests/fuzz/run.sh $(or $(FUZZ_SECONDS),share) "$(T)"
fuzz-long:
	@tests/fuzz/run.sh $(or $(FUZZ_SECONDS),3600) "$(T)"
model:
	@tests/model/run.sh
# soak.bats runs for GPUSHARE_SOAK_SECONDS; without that variable it is a short test of `make check`.
soak: tested
	@GPUSHARE_SOAK_SECONDS=$(or $(GPUSHARE_SOAK_SECONDS),600) $(RUN) --said e2e/soak
# Each call and each answer fails once, in each way: see tests/faults. T: the scenes to play.
faults: tested
	@tests/faults/each.bash $(or $(T),all)
# Measure the branches of registry/ and shim/ that the tests take, unit to end-to-end. T: only the tests that match.
coverage:
	@tests/coverage.sh $(T)
# Seed sixty faults and count how many the tests find. T: the folder for the faults. This takes hours.
mutants:
	@tests/mutants/mutants.py --folder $(or $(T),registry)
# T=preload, T=registry: measure only that part.
bench: all
	$(if $(SANITIZE),@echo "gpushare: instruments would be measured; make bench goes without SANITIZE" >&2; exit 1)
	@$(MAKE) --no-print-directory $(jobs) bench-programs
	$(if $(filter registry,$(T)),,@tests/bench/run.sh)
	$(if $(filter preload,$(T)),,@tests/bench/registry.sh)
bench-programs: $(BENCH) $(ASKS) $(addprefix $(bin)/,probe app_startup app_nothing)

# intercept_tls_get_addr: libasan of GCC 12 takes a block of thread-local memory that happens to begin 16 bytes after a
# page for one of glibc 2.19, and the leak checker then crashes (google/sanitizers#1322).
ifneq ($(SANITIZE),)
SANITIZED = GPUSHARE_TEST_ASAN_PRELOAD=$(if $(findstring address,$(SANITIZE)),$(realpath \
	$(shell $(CC) -print-file-name=libasan.so 2>/dev/null))) UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	ASAN_OPTIONS=intercept_tls_get_addr=0 \
	LSAN_OPTIONS=suppressions=$(abspath tests/lsan.supp):print_suppressions=0 \
	TSAN_OPTIONS=suppressions=$(abspath tests/tsan.supp)
endif
.PHONY: tests unit-tests demo-programs kernels driver more tested check check-unit check-e2e check-one which demo check-gpu bundle lint analyze bench bench-programs fuzz fuzz-long fuzzers model soak faults coverage mutants
