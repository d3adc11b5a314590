/* SPDX-License-Identifier: MIT */
/* Symbols and objects read from memory, against what the loader says. */
#include "unit.h"

#include <link.h>
#include <sys/auxv.h>

#include "beside.h"
#include "cuda/cuda_abi.h"
#include "base/elf.h"

static void *driver, *sysv, *plugin;

static int load_all(void **state)
{
	driver = beside_load("../sim/libcuda.so.1");
	sysv = beside_load("bin/lib_sysv.so");
	plugin = beside_load("bin/lib_linked_plugin.so"); /* needs libcuda.so.1 */
	return 0;
}

static uintptr_t base_of(const void *address)
{
	Dl_info info;

	assert_int_not_equal(dladdr(address, &info), 0);
	return (uintptr_t)info.dli_fbase;
}

static bool has_table(void *library, ElfW(Sxword) tag)
{
	struct link_map *map;

	assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return true;
	return false;
}

static void every_call_of_the_driver(void **state)
{
	uintptr_t base = 0;
	size_t count = 0;

#define F(since, version, name, params) \
	assert_non_null(dlsym(driver, #name)); \
	assert_ptr_equal(elf_find_in("libcuda.so", #name, &base), dlsym(driver, #name)); \
	assert_int_equal(base, base_of(dlsym(driver, #name))); \
	count++;
	CUDA_ABI_CALLS(F)
#undef F
	assert_true(count > 80);
}

static void all_at_once(void **state)
{
	static const char names[] = "cuInit\0no_such_symbol\0getpid\0cuMemAlloc_v2";
	uintptr_t base = base_of(dlsym(driver, "cuInit"));
	void *found[4];

	assert_true(elf_find_all("libcuda.so", base, names, 4, found));
	assert_ptr_equal(found[0], dlsym(driver, "cuInit"));
	assert_null(found[1]);
	assert_null(found[2]); /* getpid is not libcuda's */
	assert_ptr_equal(found[3], dlsym(driver, "cuMemAlloc_v2"));
	assert_false(elf_find_all("libnosuch.so", base, names, 4, found));
	assert_false(elf_find_all("libcuda.so", base + 4096, names, 4, found));
	assert_ptr_equal(found[0], dlsym(driver, "cuInit"));
}

static void how_many_were_loaded_and_unloaded(void **state)
{
	struct elf_loads before = elf_loads(NULL, 0), now;

	dlclose(dlopen(NULL, RTLD_NOW));
	now = elf_loads(NULL, 0);
	assert_memory_equal(&now, &before, sizeof(now));
	for (unsigned int i = 1; i < 3; i++) {
		void *stubs = beside_load("bin/lib_stubs.so");

		now = elf_loads(NULL, 0);
		assert_int_equal(now.loaded, before.loaded + i);
		assert_int_equal(now.unloaded, before.unloaded + i - 1);
		dlclose(stubs);
		now = elf_loads(NULL, 0);
		assert_int_equal(now.loaded, before.loaded + i);
		assert_int_equal(now.unloaded, before.unloaded + i);
	}
}

static void functions_only_and_defined_ones(void **state)
{
	uintptr_t base = 16;

	assert_non_null(elf_find_in("libc.so", "getppid", NULL));
	assert_ptr_equal(elf_find_in("libc.so", "getppid", NULL), dlsym(RTLD_DEFAULT, "getppid"));
	assert_null(elf_find_in("libc.so", "stdout", &base));	 /* data */
	assert_null(elf_find_in("libcuda.so", "getpid", &base)); /* not libcuda's */
	assert_null(elf_find_in("libc.so", "no_such_symbol", &base));
	assert_null(elf_find_in("libc.so", "", &base));
	assert_null(elf_find_in("libnosuch.so", "getppid", &base));
	assert_null(elf_find_in("c.so", "getppid", &base));	 /* a prefix must match */
	assert_null(elf_find_in(NULL, "no_such_symbol", &base)); /* in no object, nor in the vDSO */
	assert_int_equal(base, 16);
	assert_non_null(elf_find_in(NULL, "getppid", &base));
}

static void a_hash_table_of_the_old_kind(void **state)
{
	uintptr_t base = 0;

	assert_true(has_table(sysv, DT_HASH) && !has_table(sysv, DT_GNU_HASH));
	assert_true(has_table(driver, DT_GNU_HASH));
	assert_ptr_equal(elf_find_in("lib_sysv", "lib_sysv_first", &base),
			 dlsym(sysv, "lib_sysv_first"));
	assert_int_equal(base, base_of(dlsym(sysv, "lib_sysv_first")));
	assert_ptr_equal(elf_find_in("lib_sysv", "lib_sysv_second", NULL),
			 dlsym(sysv, "lib_sysv_second"));
	assert_null(elf_find_in("lib_sysv", "lib_sysv_data", NULL));
	assert_null(elf_find_in("lib_sysv", "getppid", NULL));
	assert_null(elf_find_in("lib_sysv", "lib_sysv", NULL));
}

/* Objects are searched in the order in which they were loaded, RTLD_LOCAL ones included. */
static void only_behind_an_address(void **state)
{
	const void *heap = malloc(1);

	assert_ptr_equal(elf_find_after((const void *)load_all, "cuInit"), dlsym(driver, "cuInit"));
	assert_ptr_equal(elf_find_after(dlsym(RTLD_DEFAULT, "getppid"), "cuInit"),
			 dlsym(driver, "cuInit"));
	assert_null(elf_find_after(dlsym(driver, "cuInit"), "cuInit"));
	assert_null(elf_find_after(dlsym(sysv, "lib_sysv_first"), "cuInit"));
	assert_ptr_equal(elf_find_after(dlsym(driver, "cuInit"), "lib_sysv_first"),
			 dlsym(sysv, "lib_sysv_first"));
	assert_null(elf_find_after((const void *)load_all, "no_such_symbol"));
	assert_null(elf_find_after(heap, "cuInit"));
	free((void *)(uintptr_t)heap);
}

/* Return an address in the library; any one does. */
static const void *inside(void *library)
{
	struct link_map *map;

	assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	return map->l_ld;
}

static void what_an_object_needs(void **state)
{
	assert_ptr_equal(elf_find_needed(inside(plugin), "libcuda.so", "cuInit"),
			 dlsym(driver, "cuInit"));
	assert_null(elf_find_needed(inside(plugin), "libcuda.so", "no_such_symbol"));
	assert_null(elf_find_needed(inside(plugin), "libcudart.so", "cudaMalloc"));
	assert_null(elf_find_needed(inside(sysv), "libcuda.so", "cuInit"));
	assert_null(elf_find_needed((const void *)load_all, "libcuda.so", "cuInit"));
	assert_null(elf_find_needed(NULL, "libcuda.so", "cuInit"));
	assert_non_null(elf_find_needed(inside(driver), "libc.so", "getppid"));
}

/* With three runtimes loaded, an object's own is the one that it needs by name. */
static void of_several_runtimes_its_own(void **state)
{
	static const char *const names[] = {"../sim/libcudart.so.12", "../sim/libcudart.so.11.0",
					    "../sim/libcudart.so.13"};
	void *runtime[3], *own;

	for (int i = 0; i < 3; i++)
		runtime[i] = beside_load(names[i]);
	own = beside_load("bin/lib_rt_plugin_shared.so");
	assert_ptr_equal(elf_find_in("libcudart.so", "cudaMalloc", NULL),
			 dlsym(runtime[0], "cudaMalloc"));
	assert_ptr_equal(elf_find_needed(inside(own), "libcudart.so", "cudaMalloc"),
			 dlsym(runtime[2], "cudaMalloc"));
}

static void paths(void **state)
{
	struct link_map *map;
	char path[512], cut[8], *heap = malloc(1);

	assert_int_equal(dlinfo(sysv, RTLD_DI_LINKMAP, &map), 0);
	elf_path(dlsym(sysv, "lib_sysv_second"), path, sizeof(path));
	assert_string_equal(path, map->l_name);
	elf_path(map->l_ld, path, sizeof(path)); /* an address in another part of it */
	assert_string_equal(path, map->l_name);
	elf_path((const void *)load_all, path, sizeof(path));
	assert_string_equal(path, (const char *)getauxval(AT_EXECFN));
	elf_path((const void *)load_all, cut, sizeof(cut));
	assert_true(strlen(cut) < sizeof(cut) && !strncmp(path, cut, strlen(cut)));
	elf_path(heap, path, sizeof(path));
	assert_string_equal(path, "");
	elf_path(NULL, path, sizeof(path));
	assert_string_equal(path, "");
	free(heap);
}

/* The lookups change neither the program's dlerror() nor the objects' reference counts. */
static void the_loader_does_not_notice(void **state)
{
	void *once = beside_load("bin/lib_lookalikes.so");
	const void *place = inside(once);
	char path[512];

	assert_null(dlsym(RTLD_DEFAULT, "no_such_symbol")); /* leaves a message for dlerror() */
	elf_find_in("lib_lookalikes", "no_such_symbol", NULL);
	elf_find_needed(place, "libc.so", "getppid");
	elf_path(place, path, sizeof(path));
	assert_true(elf_is_in(place, "lib_lookalikes", NULL));
	assert_non_null(strstr(dlerror(), "no_such_symbol"));
	assert_int_equal(dlclose(once), 0);
	assert_null(elf_find_in("lib_lookalikes", "cudnnCreate", NULL));
}

UNIT_MAIN_BETWEEN(load_all, NULL, UNIT(every_call_of_the_driver), UNIT(all_at_once),
		  UNIT(how_many_were_loaded_and_unloaded), UNIT(functions_only_and_defined_ones),
		  UNIT(a_hash_table_of_the_old_kind), UNIT(only_behind_an_address),
		  UNIT(what_an_object_needs), UNIT(of_several_runtimes_its_own), UNIT(paths),
		  UNIT(the_loader_does_not_notice))
