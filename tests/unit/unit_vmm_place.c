/* SPDX-License-Identifier: MIT */
/* Where memory is mapped that others may want at the same address, and for which devices. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants some of the above first */
#include <cmocka.h>

#include "stage.h"
#include "vmm.h"

#define SIZE ((size_t)4 << 20)

static struct {
	const struct driver *real;
	cu_result hint_answer; /* CU_OK: another address */
	int hints, plain;
} reserving;

static cu_result reserve_elsewhere(cu_deviceptr *pointer, size_t size, size_t alignment,
				   cu_deviceptr want, unsigned long long flags)
{
	(*(want ? &reserving.hints : &reserving.plain))++;
	if (want && reserving.hint_answer != CU_OK)
		return reserving.hint_answer;
	return reserving.real->cuMemAddressReserve(pointer, size, alignment, 0, flags);
}

static bool is_in_range(uint64_t pointer)
{
	return pointer >= UINT64_C(0x380000000000) && pointer < UINT64_C(0x500000000000);
}

static void range(void)
{
	static const size_t sizes[] = {1, SIZE, SIZE, (size_t)512 << 20, (size_t)1 << 30};
	const struct driver *driver = part_driver();
	struct vmm_mapping made[sizeof(sizes) / sizeof(*sizes)];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		errno = 77;
		CHECK(vmm_make(driver, sizes[i], 0, &made[i]) == CU_OK);
		CHECK(errno == 77);
		CHECK(is_in_range(made[i].pointer));
		CHECK(made[i].pointer % (i < 3 ? (size_t)32 << 20 : (size_t)512 << 20) == 0);
		for (size_t j = 0; j < i; j++)
			CHECK(made[i].pointer >= made[j].pointer + made[j].size ||
			      made[j].pointer >= made[i].pointer + made[i].size);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		CHECK(vmm_unmap(driver, &made[i]) == CU_OK);
}

static void test_range(void **state)
{
	(void)state;
	stage_play(range, NULL);
}

/* Elsewhere it is made all the same, and after so many answers nobody asks any more. */
static void no_range(cu_result answer, int hints)
{
	struct driver driver = *part_driver();
	struct vmm_mapping first, second;

	reserving.real = part_driver();
	reserving.hint_answer = answer;
	driver.cuMemAddressReserve = reserve_elsewhere;
	CHECK(vmm_make(&driver, SIZE, 0, &first) == CU_OK);
	CHECK(vmm_make(&driver, SIZE, 0, &second) == CU_OK);
	CHECK(reserving.hints == hints);
	CHECK(reserving.plain == 2);
	CHECK(driver.cuMemsetD8_v2(first.pointer, 1, SIZE) == CU_OK);
	CHECK(vmm_unmap(&driver, &first) == CU_OK && vmm_unmap(&driver, &second) == CU_OK);
}

static void other_addresses(void)
{
	no_range(CU_OK, 3);
}

static void hint_refused(void)
{
	no_range(CU_INVALID_VALUE, 1);
}

static void test_no_range(void **state)
{
	(void)state;
	stage_play(other_addresses, NULL);
	stage_play(hint_refused, NULL);
}

int main(int argc, char **argv)
{
	(void)argc;
#define PLAY(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
	const struct CMUnitTest tests[] = {
	    PLAY(test_range),
	    PLAY(test_no_range),
	};

	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
