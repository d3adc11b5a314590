/* SPDX-License-Identifier: MIT */
/* Where in the program a call comes from. */
#include "unit.h"

#include <sys/auxv.h>

#include "beside.h"
#include "preload/shim_site.h"

/* Return one of 256 addresses in the program: more than there is room for. */
static const char *place(size_t number)
{
	static const char places[256];

	return &places[number];
}

static void a_path_is_kept_once(void **state)
{
	const char *program = site_path(place(0));
	const char *library = site_path(dlsym(RTLD_DEFAULT, "getppid"));

	assert_string_equal(program, (const char *)getauxval(AT_EXECFN));
	assert_non_null(strstr(library, "libc.so"));
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 256; i++)
			assert_ptr_equal(site_path(place(i)), program);
		assert_ptr_equal(site_path(dlsym(RTLD_DEFAULT, "getpid")), library);
	}
}

static void nobodys_is_empty(void **state)
{
	char *heap = malloc(16);

	assert_string_equal(site_path(heap), "");
	assert_string_equal(site_path(NULL), "");
	free(heap);
}

/* An address in an unloaded library has no path. If the library is loaded again, its path is the
 * one that was kept. */
static void errno_stays_and_unloading_is_noticed(void **state)
{
	void *library = beside_load("bin/lib_sysv.so");
	const void *inside = dlsym(library, "lib_sysv_first");
	const char *path;

	errno = 77;
	path = site_path(inside);
	assert_non_null(strstr(path, "lib_sysv.so"));
	assert_int_equal(errno, 77);
	assert_int_equal(dlclose(library), 0);
	assert_non_null(strstr(path, "lib_sysv.so")); /* kept for good */
	assert_string_equal(site_path((const char *)inside + 1), "");
	library = beside_load("bin/lib_sysv.so");
	assert_ptr_equal(site_path(dlsym(library, "lib_sysv_first")), path);
	dlclose(library);
}

static void *ask(void *unused)
{
	uintptr_t wrong = 0;

	for (size_t i = 0; i < 20000; i++)
		wrong += strcmp(site_path(place(i % 256)), (const char *)getauxval(AT_EXECFN)) != 0;
	wrong += site_here.inside || site_here.runtime != RULES_API_NONE;
	return (void *)wrong;
}

static void threads_have_a_site_each(void **state)
{
	pthread_t threads[3];
	void *wrong;

	site_here = (struct site){.inside = true, .runtime = RULES_API_cudaMalloc};
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	assert_true(site_here.inside);
	site_here = (struct site){.inside = false};
}

static void nccl_is_internal(void **state)
{
	static const char *const internal[] = {"/usr/lib/libnccl.so.2", "libnccl.so",
					       "/a/libnccl-net.so", "./libnccl_static_copy.so"};
	static const char *const others[] = {"",
					     "/usr/lib/libnccl.so.2/app",
					     "/opt/libnccl/train",
					     "/usr/lib/mylibnccl.so",
					     "libncc.so",
					     "/app",
					     "nccl"};

	for (size_t i = 0; i < sizeof(internal) / sizeof(*internal); i++)
		assert_true(site_is_internal(internal[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(site_is_internal(others[i]));
}

UNIT_MAIN(UNIT(a_path_is_kept_once), UNIT(nobodys_is_empty),
	  UNIT(errno_stays_and_unloading_is_noticed), UNIT(threads_have_a_site_each),
	  UNIT(nccl_is_internal))
