/* SPDX-License-Identifier: MIT */
/* gpushare_alloc_with(): what it refuses, and what each failing step leaves behind. */
#include "unit.h"

#include "descriptors.h"
#include "stage.h"

#define SIZE ((size_t)3 << 20)
#define HELD ((uint64_t)4 << 20)

static size_t free_memory(const struct driver *driver)
{
	size_t left = 0, total;

	CHECK(driver->cuMemGetInfo_v2(&left, &total) == CU_OK);
	return left;
}

static void make_and_free(void)
{
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session();
	const struct gpushare_alloc_options options = {.device = -1, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_buffer *buffer = NULL;
	struct gpushare_info info;
	size_t before = free_memory(driver);
	int fds;

	OK(gpushare_alloc_with(session, "w", SIZE, &options, &buffer));
	OK(gpushare_free(buffer));
	fds = descriptors_open();
	OK(gpushare_alloc_with(session, "w", SIZE, &options, &buffer));
	CHECK(gpushare_size(buffer) == SIZE && free_memory(driver) == before - HELD);
	OK(gpushare_buffer_info(buffer, &info));
	CHECK(info.backing == GPUSHARE_BACKING_VMM && info.base_size == HELD && info.isolated);
	CHECK(info.flags == 0 && info.owner_alive && info.base_offset == 0);
	OK(gpushare_stat(session, "w", &info));
	CHECK(info.flags == 0 && info.owner_alive && info.size == SIZE);
	CHECK(!gpushare_is_read_only(buffer) && !gpushare_was_adopted(buffer));
	CHECK(!gpushare_is_read_only(NULL) && !gpushare_was_adopted(NULL));
	OK(gpushare_free(buffer));
	CHECK(free_memory(driver) == before && descriptors_open() == fds);
	FAILS(E_NOT_FOUND, "w", gpushare_stat(session, "w", &info));
	OK(gpushare_alloc_with(session, "plain", SIZE, NULL, &buffer));
	OK(gpushare_buffer_info(buffer, &info));
	CHECK(info.backing == GPUSHARE_BACKING_IPC);
	OK(gpushare_close(session));
}

/* Each step fails once. The error is reported, and no memory, descriptor or name is left. */
static void fail_each(void)
{
	static const int answers[] = {GPUSHARE_E_NO_MEMORY, GPUSHARE_E_NOT_SUPPORTED,
				      GPUSHARE_E_CUDA, GPUSHARE_E_CUDA, GPUSHARE_E_CUDA};
	const struct gpushare_alloc_options options = {.flags = GPUSHARE_FLAG_KEEP};
	struct gpushare_buffer *const untouched = (struct gpushare_buffer *)answers;
	struct gpushare_buffer *buffer = untouched;
	struct gpushare_session *session;
	const struct driver *driver;
	struct gpushare_info info;
	size_t before;
	int fds;

	setenv("GPUSHARE_SIM_FAIL",
	       "cuMemCreate:1:1:2,cuMemAddressReserve:1:2:801,cuMemMap:1:1:1,cuMemSetAccess:1:1:1,"
	       "cuMemExportToShareableHandle:1:1:999",
	       1);
	driver = part_driver();
	session = part_session();
	before = free_memory(driver);
	fds = descriptors_open();
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		part_status(__FILE__, __LINE__, "alloc",
			    gpushare_alloc_with(session, "w", SIZE, &options, &buffer), answers[i],
			    "w");
		CHECK(buffer == untouched);
		CHECK(free_memory(driver) == before && descriptors_open() == fds);
		FAILS(E_NOT_FOUND, "w", gpushare_stat(session, "w", &info));
	}
	OK(gpushare_alloc_with(session, "w", SIZE, &options, &buffer));
	FAILS(E_EXISTS, "taken", gpushare_alloc_with(session, "w", SIZE, &options, &buffer));
	CHECK(free_memory(driver) == before - HELD);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(make_and_free), SCENE(fail_each))
