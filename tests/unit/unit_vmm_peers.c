/* SPDX-License-Identifier: MIT */
/* What keeps GPUs joined between one mapping and the next: what it takes, and that it is nobody's need. */
#include "unit.h"

#include <stdio.h>

#include "descriptors.h"
#include "stage.h"
#include "cuda/vmm_peers.h"

#define GRANULE ((size_t)2 << 20)

static struct vmm_links links;

static size_t left_over(const struct driver *driver)
{
	size_t free_bytes = 0, total;

	CHECK(driver->cuMemGetInfo_v2(&free_bytes, &total) == CU_OK);
	return free_bytes;
}

static void keep_one(void)
{
	const struct driver *driver = part_driver();
	size_t before = left_over(driver);
	int open = descriptors_open();

	for (int i = 0; i < 3; i++)
		vmm_links_keep(&links, driver, 0);
	CHECK(links.of[0].kept && !links.of[1].kept);
	CHECK(before - left_over(driver) == GRANULE);
	vmm_links_drop(&links, driver);
	CHECK(left_over(driver) == before && descriptors_open() == open);
	vmm_links_drop(&links, driver);
	CHECK(left_over(driver) == before);
	vmm_links_keep(&links, driver, 0);
	CHECK(before - left_over(driver) == GRANULE);
	vmm_links_drop(&links, driver);
}

static void two_gpus(void)
{
	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	keep_one();
}

/* Nothing reaches it, or it is none: nothing is taken. */
static void keep_none(void)
{
	const struct driver *driver = part_driver();
	size_t before = left_over(driver);

	vmm_links_keep(&links, driver, 0);
	vmm_links_keep(&links, driver, -1);
	vmm_links_keep(&links, driver, VMM_DEVICES_MAX);
	CHECK(left_over(driver) == before && !links.of[0].kept);
	vmm_links_drop(&links, driver);
}

/* Each call fails once: nothing is left, and nobody tries again for every buffer. */
static void fail_each(void)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap"};
	const struct driver *driver;
	size_t before;

	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	setenv("GPUSHARE_SIM_FAIL",
	       "cuMemCreate:1:1:2,cuMemAddressReserve:1:1:2,cuMemMap:1:1:1,cuMemSetAccess:1:2:101",
	       1);
	driver = part_driver();
	before = left_over(driver);
	for (size_t i = 0; i < 1 + sizeof(calls) / sizeof(*calls); i++) {
		vmm_links_keep(&links, driver, 0);
		vmm_links_keep(&links, driver, 0);
		CHECK(!links.of[0].kept && left_over(driver) == before);
		vmm_links_drop(&links, driver);
	}
	vmm_links_keep(&links, driver, 0);
	CHECK(links.of[0].kept);
	vmm_links_drop(&links, driver);
	CHECK(left_over(driver) == before);
}

/* A session has one from its first mapped buffer on until it is closed. */
static void cycle_buffers(void)
{
	const struct gpushare_alloc_options mapped = {.flags = GPUSHARE_FLAG_VMM};
	const struct driver *driver;
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	size_t before;

	setenv("GPUSHARE_SIM_DEVICES", "2", 1);
	driver = part_driver();
	before = left_over(driver);
	OK(gpushare_open(NULL, &session));
	for (int i = 0; i < 3; i++) {
		OK(gpushare_alloc_with(session, "linked", GRANULE, &mapped, &buffer));
		CHECK(before - left_over(driver) == 2 * GRANULE);
		OK(gpushare_free(buffer));
		CHECK(before - left_over(driver) == GRANULE);
	}
	OK(gpushare_close(session));
	CHECK(left_over(driver) == before);
}

STAGE_MAIN(SCENE(two_gpus), SCENE(keep_none), SCENE(fail_each), SCENE(cycle_buffers))
