/* SPDX-License-Identifier: MIT */
/* The driver's table: each call that a driver may lack, and the names of what it answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants some of the above first */
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "stage.h"

#define ENTRIES (sizeof(struct driver) / sizeof(void *))

static const char *const calls[] = {
#define F(since, version, name, params) #name,
    CUDA_ABI_CALLS(F)
#undef F
};

static const char *lacking; /* what the next part's driver has not */
static struct {		    /* what the parts find */
	bool refused[ENTRIES];
	size_t refusals;
} * found;

/* The simulated driver without the symbol `lacking`: its name there is another. */
static int driver_without(void)
{
	char path[4096], *bytes, wanted[128];
	size_t length = strlen(lacking) + 2;
	int from, to = memfd_create("driver", MFD_CLOEXEC);
	struct stat is;

	snprintf(path, sizeof(path), "%.4000s/libcuda.so.1", getenv("LD_LIBRARY_PATH"));
	snprintf(wanted, sizeof(wanted), "%c%s", '\0', lacking);
	memcpy(wanted + 1, lacking, length - 1);
	from = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(from >= 0 && to >= 0 && !fstat(from, &is) && !ftruncate(to, is.st_size));
	bytes = mmap(NULL, (size_t)is.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
	CHECK(bytes != MAP_FAILED && read(from, bytes, (size_t)is.st_size) == is.st_size);
	for (char *at = bytes; (at = memmem(at, (size_t)(bytes + is.st_size - at), wanted, length));
	     at += length - 1)
		at[1] = '-';
	munmap(bytes, (size_t)is.st_size);
	close(from);
	return to;
}

/* What it lacks is NULL, or refused by name. */
static void lack_one(void)
{
	char path[64], why[256] = "", wanted[256];
	const struct driver *driver;
	size_t which = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", driver_without());
	CHECK(dlopen(path, RTLD_NOW | RTLD_GLOBAL));
	while (strcmp(calls[which], lacking) != 0)
		which++;
	driver = driver_open(why, sizeof(why));
	if (!driver) {
		snprintf(wanted, sizeof(wanted),
			 "the CUDA driver is too old: libcuda.so.1 has no %s; CUDA 11.8 or later "
			 "is needed",
			 lacking);
		if (strcmp(why, wanted) != 0)
			part_fail(__FILE__, __LINE__, "%s", why);
		CHECK(!driver_open(why, sizeof(why)));
		found->refused[which] = true;
		found->refusals++;
		return;
	}
	for (size_t i = 0; i < ENTRIES; i++)
		if (!((void *const *)driver)[i] != (i == which))
			part_fail(__FILE__, __LINE__, "without %s: %s", lacking, calls[i]);
}

static bool is_refused(const char *call)
{
	for (size_t i = 0; i < ENTRIES; i++)
		if (!strcmp(calls[i], call))
			return found->refused[i];
	fail_msg("there is no %s", call);
	return false;
}

static void test_each_call_lacking(void **state)
{
	(void)state;
	found =
	    mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(found != MAP_FAILED);
	for (size_t i = 0; i < ENTRIES; i++) {
		lacking = calls[i];
		stage_play(lack_one, NULL);
	}
	assert_true(is_refused("cuInit") && is_refused("cuMemAlloc_v2"));
	assert_true(is_refused("cuIpcOpenMemHandle_v2") && is_refused("cuEventDestroy_v2"));
	assert_false(is_refused("cuMemCreate") || is_refused("cuStreamWriteValue64_v2"));
	assert_false(is_refused("cuGetErrorName") || is_refused("cuMemGetHandleForAddressRange"));
	assert_in_range(found->refusals, 20, ENTRIES / 2);
	munmap(found, sizeof(*found));
}

static const char *said;

static cu_result say_so(cu_result result, const char **out_text)
{
	if ((int)result == 4711)
		return CU_INVALID_VALUE;
	*out_text = said;
	return CU_OK;
}

/* The driver's word, where it has one; else our own. */
static void test_error_names(void **state)
{
	struct driver driver = {0};

	(void)state;
#define V(ours, theirs, value) \
	assert_string_equal(driver_error_name(NULL, (cu_result)(value)), #theirs); \
	assert_string_equal(driver_error_name(&driver, (cu_result)(value)), #theirs);
	CUDA_ABI_RESULTS(V)
#undef V
	assert_string_equal(driver_error_name(NULL, (cu_result)4711), "an unknown CUDA error");
	driver.cuGetErrorName = say_so;
	said = "CUDA_ERROR_OF_LATER";
	assert_string_equal(driver_error_name(&driver, CU_OUT_OF_MEMORY), said);
	assert_string_equal(driver_error_name(&driver, (cu_result)4711), "an unknown CUDA error");
	said = NULL;
	assert_string_equal(driver_error_name(&driver, CU_OUT_OF_MEMORY),
			    "CUDA_ERROR_OUT_OF_MEMORY");
}

static void test_libc(void **state)
{
	(void)state;
	assert_non_null(driver_libc("dlsym"));
	assert_null(driver_libc("gpushare_no_such_call"));
	assert_ptr_equal(driver_real_dlsym(), driver_libc("dlsym"));
	assert_ptr_equal(driver_real_dlsym()(RTLD_DEFAULT, "getpid"),
			 dlsym(RTLD_DEFAULT, "getpid"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_call_lacking),
	    cmocka_unit_test(test_error_names),
	    cmocka_unit_test(test_libc),
	};

	(void)argc;
	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
