/* SPDX-License-Identifier: MIT */
/* The resync of the shim with a restarted registry, and the buffers that it shares again. */
#include "unit.h"

#include "resynced.h"

#define PAUSED_US 100000 /* after it the shim asks a registry again that failed at once */

static const void *const CALLER = (const void *)preloaded;

static void tell_all(void)
{
	cu_deviceptr all[21], freed;

	resynced_act("w%i", NULL);
	for (int i = 0; i < 20; i++)
		all[i] = resynced_alloc(MIB);
	freed = all[7];
	resynced_free(freed);
	resynced_restart();
	all[20] = resynced_alloc(MIB);
	CHECK(scripted.resyncings == 1 && scripted.shared_count == 19 && !scripted.attached_count);
	CHECK(resynced_is_told("w0", 101) && resynced_is_told("w6", 107) &&
	      resynced_is_told("w19", 120));
	CHECK(!resynced_is_told("w7", 108) && scripted.asked[gpushare_Request_resync_tag] == 3);
	CHECK(scripted.shares_count == 1 && scripted.shares[0].again == 0);
	CHECK(!strcmp(scripted.shares[0].buffer.name, "w20"));
	/* no second resync over the same connection */
	all[7] = resynced_alloc(MIB);
	CHECK(scripted.resyncings == 1);
	for (int i = 0; i < 21; i++)
		resynced_free(all[i]);
	resynced_restart();
	resynced_free(resynced_alloc(MIB));
	CHECK(scripted.resyncings == 2 && scripted.shared_count == 0);
	CHECK(scripted.asked[gpushare_Request_resync_tag] == 1);
}

/* The registry closes the connection at the request for the order page of a buffer that was just
 * shared. */
static void publish(void)
{
	static const char *const names[] = {"i", "v"};

	resynced_act("i:size=1M,v:size=2M:vmm", NULL);
	for (unsigned int i = 0; i < 2; i++) {
		cu_deviceptr pointer;

		scripted.drop_at = gpushare_Request_order_tag;
		pointer = resynced_alloc((i + 1) * 1000000);
		CHECK(scripted.resyncings == i + 1 && scripted.shared_count == i + 1);
		CHECK(resynced_is_told(names[i], 101 + i));
		CHECK(pointer);
	}
}

static void test_what_is_to_be_published_is_told(void **state)
{
	setenv("GPUSHARE_PUBLISH", "sync", 1);
	stage_play(publish, NULL);
	unsetenv("GPUSHARE_PUBLISH");
}

/* Check that the share repeats the first record, with its handle or, if `by_fd`, a descriptor. */
static void check_again(const gpushare_Share *first, uint64_t generation, bool by_fd)
{
	const gpushare_Share *again = resynced_share(first->buffer.name);

	CHECK(again->again == generation && !again->orphan && !again->adopt);
	CHECK(again->buffer.size == first->buffer.size);
	CHECK(again->buffer.base_size == first->buffer.base_size);
	CHECK(again->buffer.base_offset == first->buffer.base_offset);
	CHECK(again->buffer.backing == first->buffer.backing);
	CHECK(again->buffer.flags == first->buffer.flags);
	CHECK(again->buffer.ttl_s == first->buffer.ttl_s);
	CHECK(again->buffer.address == first->buffer.address);
	CHECK(!memcmp(again->buffer.device_uuid, first->buffer.device_uuid, GPUSHARE_UUID_SIZE));
	CHECK(!memcmp(again->handle, first->handle, sizeof(first->handle)));
	CHECK(scripted.brought[again - scripted.shares] == by_fd);
}

static void want_some(void)
{
	static gpushare_Share first[4];
	cu_deviceptr all[5];
	cu_context before, now;

	resynced_act("i%i:size=1M,v%i:size=2M:vmm,k%i:size=3M:keep:ttl=9", NULL);
	all[0] = resynced_alloc(1000000);
	all[1] = resynced_alloc(2000000);
	all[2] = resynced_alloc(3000000);
	all[3] = resynced_alloc(1000000);
	memcpy(first, scripted.shares, sizeof(first));
	resynced_restart();
	memcpy(scripted.wants, (uint64_t[]){101, 102, 103}, 3 * sizeof(uint64_t));
	scripted.wants_count = 3;
	part_driver()->cuCtxGetCurrent(&before);
	resynced_free(all[3]);
	part_driver()->cuCtxGetCurrent(&now);
	CHECK(before == now && scripted.shares_count == 3 && scripted.came == 2);
	check_again(&first[0], 101, false);
	check_again(&first[1], 102, true);
	check_again(&first[2], 103, true);
	CHECK(resynced_share("k0")->buffer.ttl_s == 9);
	CHECK(preloaded_logged("is known to the registry again") == 3);
	for (int i = 0; i < 3; i++) {
		CHECK(preloaded_works(all[i], 1000));
		resynced_free(all[i]);
	}
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 4 && !live_any());
}

/* The program maps cuMemCreate memory itself: one buffer is known by its handle alone, one by
 * its mapping alone. */
static void want_objects(void)
{
	const struct driver *driver = resynced_act("m%i", NULL);
	const cu_mem_prop prop = {.type = CU_ALLOCATION_PINNED,
				  .location = {.type = CU_LOCATION_DEVICE}};
	cu_mem_handle handle[2];
	cu_deviceptr at;

	for (int i = 0; i < 2; i++)
		CHECK(buffers_create(driver->cuMemCreate, CALLER, &handle[i], BLOCK, &prop, 0) ==
		      CU_OK);
	CHECK(driver->cuMemAddressReserve(&at, BLOCK, 0, 0, 0) == CU_OK);
	CHECK(buffers_map(driver->cuMemMap, at, BLOCK, 0, handle[1], 0) == CU_OK);
	CHECK(buffers_release(driver->cuMemRelease, handle[1]) == CU_OK);
	resynced_restart();
	memcpy(scripted.wants, (uint64_t[]){101, 102}, 2 * sizeof(uint64_t));
	scripted.wants_count = 2;
	resynced_free(resynced_alloc(MIB)); /* m2 */
	CHECK(resynced_is_told("m0", 101) && resynced_is_told("m1", 102) && scripted.came == 2);
	CHECK(resynced_share("m0")->again == 101 && resynced_share("m0")->buffer.size == BLOCK);
	CHECK(resynced_share("m1")->again == 102 &&
	      resynced_share("m1")->buffer.base_size == BLOCK);
	CHECK(buffers_release(driver->cuMemRelease, handle[0]) == CU_OK);
	CHECK(buffers_unmap(driver->cuMemUnmap, at, BLOCK) == CU_OK);
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 3);
	resynced_restart();
	resynced_free(resynced_alloc(MIB));
	CHECK(scripted.resyncings == 2 && scripted.shared_count == 0);
}

/* The share is not answered. The shim repeats it when the program releases the memory, so that
 * the final contents are kept. */
static void untold_objects(void)
{
	const struct driver *driver = resynced_act("m%i:keep", NULL);
	const cu_mem_prop prop = {.type = CU_ALLOCATION_PINNED,
				  .location = {.type = CU_LOCATION_DEVICE}};
	cu_mem_handle handle;
	cu_deviceptr at;

	CHECK(driver->cuMemAddressReserve(&at, BLOCK, 0, 0, 0) == CU_OK);
	for (unsigned int i = 0; i < 2; i++) {
		resynced_restart();
		scripted.half_at = gpushare_Request_share_tag;
		CHECK(buffers_create(driver->cuMemCreate, CALLER, &handle, BLOCK, &prop, 0) ==
		      CU_OK);
		CHECK(preloaded_logged("is not shared yet") == i + 1);
		usleep(PAUSED_US);
		if (i)
			CHECK(buffers_map(driver->cuMemMap, at, BLOCK, 0, handle, 0) == CU_OK);
		CHECK(buffers_release(driver->cuMemRelease, handle) == CU_OK);
		if (i)
			CHECK(buffers_unmap(driver->cuMemUnmap, at, BLOCK) == CU_OK);
		CHECK(scripted.asked[gpushare_Request_share_tag] == 2);
		CHECK(scripted.shares_count && !scripted.shares[scripted.shares_count - 1].again);
		CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 1);
	}
}

/* Another process has taken the name meanwhile. */
static void lose_one(void)
{
	cu_deviceptr one, two;

	resynced_act("v%i:vmm", NULL);
	one = resynced_alloc(MIB);
	resynced_restart();
	scripted.wants[0] = 101;
	scripted.wants_count = 1;
	scripted.share_status = GPUSHARE_E_EXISTS;
	two = resynced_alloc(MIB);
	CHECK(scripted.shares_count == 2 && preloaded_logged("\"v0\" is not shared any more") == 1);
	CHECK(preloaded_logged("not again") == 1 && preloaded_works(one, MIB));
	resynced_restart();
	resynced_free(two);
	CHECK(scripted.shared_count == 0); /* one has lost its name, two is being freed */
	resynced_free(one);
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 1 && !live_any());
}

STAGE_MAIN_SCRIPTED(SCENE(tell_all), STAGED(test_what_is_to_be_published_is_told), SCENE(want_some),
		    SCENE(want_objects), SCENE(untold_objects), SCENE(lose_one))
