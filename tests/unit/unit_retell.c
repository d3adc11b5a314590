/* SPDX-License-Identifier: MIT */
/* What the shim tells a registry that was restarted, and shares with it again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants some of the above first */
#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>

#include "preloaded.h"
#include "raw.h"
#include "scripted.h"

#define TIMEOUT_MS 600

static const void *const CALLER = (const void *)preloaded;

/* A part with a registry of its own, in this process. */
static const struct driver *act(const char *names, const char *attaches)
{
	scripted = (struct scripted){.generation = 100};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_TIMEOUT_MS", "600", 1);
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	return preloaded(names, attaches);
}

static void restart(void)
{
	scripted_end();
	scripted.shares_count = 0;
	scripted.deposits = 0;
	memset(scripted.asked, 0, sizeof(scripted.asked));
	scripted_start();
}

static cu_deviceptr alloc(size_t size)
{
	cu_deviceptr pointer;

	errno = 77;
	CHECK(preloaded_alloc(&pointer, size) == CU_OK && errno == 77);
	return pointer;
}

static void free_it(cu_deviceptr pointer)
{
	errno = 77;
	CHECK(preloaded_free(pointer) == CU_OK && errno == 77);
}

static bool is_told(const char *name, uint64_t generation)
{
	for (size_t i = 0; i < scripted.shared_count; i++)
		if (!strcmp(scripted.shared[i].name, name))
			return scripted.shared[i].generation == generation;
	return false;
}

static void tell_all(void)
{
	cu_deviceptr all[21], freed;

	act("w%i", NULL);
	for (int i = 0; i < 20; i++)
		all[i] = alloc(MIB);
	freed = all[7];
	free_it(freed);
	restart();
	all[20] = alloc(MIB);
	CHECK(scripted.retellings == 1 && scripted.shared_count == 19 && !scripted.attached_count);
	CHECK(is_told("w0", 101) && is_told("w6", 107) && is_told("w19", 120));
	CHECK(!is_told("w7", 108) && scripted.asked[gpushare_Request_retell_tag] == 3);
	CHECK(scripted.shares_count == 1 && scripted.shares[0].again == 0);
	CHECK(!strcmp(scripted.shares[0].buffer.name, "w20"));
	/* no more of it over the same connection */
	all[7] = alloc(MIB);
	CHECK(scripted.retellings == 1);
	for (int i = 0; i < 21; i++)
		free_it(all[i]);
	restart();
	free_it(alloc(MIB));
	CHECK(scripted.retellings == 2 && scripted.shared_count == 0);
	CHECK(scripted.asked[gpushare_Request_retell_tag] == 1);
}

static void test_all_is_told(void **state)
{
	(void)state;
	stage_play(tell_all, NULL);
}

static const gpushare_Share *shared_as(const char *name)
{
	for (size_t i = 0; i < scripted.shares_count; i++)
		if (!strcmp(scripted.shares[i].buffer.name, name))
			return &scripted.shares[i];
	part_fail(__FILE__, __LINE__, "%s was not shared again", name);
	return NULL;
}

/* The same record as before, the handle or a descriptor with it. */
static void check_again(const gpushare_Share *first, uint64_t generation, bool by_fd)
{
	const gpushare_Share *again = shared_as(first->buffer.name);

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
	CHECK((again->ticket[0] != 0) == by_fd);
}

static void want_some(void)
{
	static gpushare_Share first[4];
	cu_deviceptr all[5];
	cu_context before, now;

	act("i%i:size=1M,v%i:size=2M:vmm,k%i:size=3M:keep:ttl=9", NULL);
	all[0] = alloc(1000000);
	all[1] = alloc(2000000);
	all[2] = alloc(3000000);
	all[3] = alloc(1000000);
	memcpy(first, scripted.shares, sizeof(first));
	restart();
	memcpy(scripted.wants, (uint64_t[]){101, 102, 103}, 3 * sizeof(uint64_t));
	scripted.wants_count = 3;
	part_driver()->cuCtxGetCurrent(&before);
	free_it(all[3]);
	part_driver()->cuCtxGetCurrent(&now);
	CHECK(before == now && scripted.shares_count == 3 && scripted.deposits == 2);
	check_again(&first[0], 101, false);
	check_again(&first[1], 102, true);
	check_again(&first[2], 103, true);
	CHECK(shared_as("k0")->buffer.ttl_s == 9);
	CHECK(preloaded_logged("is known to the registry again") == 3);
	for (int i = 0; i < 3; i++) {
		CHECK(preloaded_works(all[i], 1000));
		free_it(all[i]);
	}
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 4 && !live_any());
}

static void test_memory_is_shared_again(void **state)
{
	(void)state;
	stage_play(want_some, NULL);
}

/* cuMemCreate memory that the program maps by itself, with and without its handle. */
static void want_objects(void)
{
	const struct driver *driver = act("m%i", NULL);
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
	restart();
	memcpy(scripted.wants, (uint64_t[]){101, 102}, 2 * sizeof(uint64_t));
	scripted.wants_count = 2;
	free_it(alloc(MIB)); /* m2 */
	CHECK(is_told("m0", 101) && is_told("m1", 102) && scripted.deposits == 2);
	CHECK(shared_as("m0")->again == 101 && shared_as("m0")->buffer.size == BLOCK);
	CHECK(shared_as("m1")->again == 102 && shared_as("m1")->buffer.base_size == BLOCK);
	CHECK(buffers_release(driver->cuMemRelease, handle[0]) == CU_OK);
	CHECK(buffers_unmap(driver->cuMemUnmap, at, BLOCK) == CU_OK);
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 3);
	restart();
	free_it(alloc(MIB));
	CHECK(scripted.retellings == 2 && scripted.shared_count == 0);
}

static void test_objects_are_shared_again(void **state)
{
	(void)state;
	stage_play(want_objects, NULL);
}

/* The name is another's now. */
static void lose_one(void)
{
	cu_deviceptr one, two;

	act("v%i:vmm", NULL);
	one = alloc(MIB);
	restart();
	scripted.wants[0] = 101;
	scripted.wants_count = 1;
	scripted.share_status = GPUSHARE_E_EXISTS;
	two = alloc(MIB);
	CHECK(scripted.shares_count == 2 && preloaded_logged("\"v0\" is not shared any more") == 1);
	CHECK(preloaded_logged("not again") == 1 && preloaded_works(one, MIB));
	restart();
	free_it(two);
	CHECK(scripted.shared_count == 0); /* neither what is being freed */
	free_it(one);
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 1 && !live_any());
}

static void test_a_name_that_was_lost(void **state)
{
	(void)state;
	stage_play(lose_one, NULL);
}

/* One that gives no lease and knows no Retell has it all as new. */
static void meet_an_old_one(void)
{
	cu_deviceptr one, two, three;

	act("v%i:vmm:size=1M,i%i", NULL);
	one = alloc(1000000);
	two = alloc(MIB);
	scripted.old = true;
	restart();
	three = alloc(MIB);
	CHECK(scripted.asked[gpushare_Request_retell_tag] == 0 && scripted.shares_count == 3);
	CHECK(shared_as("v0")->again == 0 && shared_as("i0")->again == 0);
	restart();
	free_it(three);
	CHECK(scripted.shares_count == 2);
	scripted.shares_count = 0;
	free_it(one);
	free_it(two);
	CHECK(scripted.shares_count == 0 && scripted.asked[gpushare_Request_withdraw_tag] == 3);
}

static void test_an_old_registry(void **state)
{
	(void)state;
	stage_play(meet_an_old_one, NULL);
}

/* The program waits no longer than for any registry that fails, and later all is told. */
static void wait_for_it(void)
{
	cu_deviceptr one, two;
	long long begin;

	act("w%i", NULL);
	one = alloc(MIB);
	restart();
	scripted.mute_at = gpushare_Request_retell_tag;
	begin = raw_now_ms();
	two = alloc(MIB);
	CHECK(raw_now_ms() - begin < TIMEOUT_MS + 300 + raw_slack_ms());
	free_it(two);
	CHECK(raw_now_ms() - begin < TIMEOUT_MS + 300 + raw_slack_ms());
	scripted.mute_at = 0;
	raw_sleep_ms(1100);
	free_it(alloc(MIB));
	CHECK(scripted.retellings == 1 && scripted.shared_count == 1);
	/* one that ends in the middle of it */
	restart();
	scripted.end_at = gpushare_Request_retell_tag;
	two = alloc(MIB); /* has no name */
	restart();
	raw_sleep_ms(100);
	free_it(alloc(MIB));
	CHECK(scripted.retellings == 2 && is_told("w0", 101));
	free_it(two);
	free_it(one);
}

static void test_one_that_fails_in_it(void **state)
{
	(void)state;
	stage_play(wait_for_it, NULL);
}

/* More than one call has time for: the rest is told in the next ones. */
static void tell_slowly(void)
{
	cu_deviceptr all[64];
	unsigned int calls = 0;
	long long begin;

	act("w%i", NULL);
	for (int i = 0; i < 64; i++)
		all[i] = alloc(MIB);
	restart();
	scripted.nap_ms = 100;
	while (!scripted.retellings && calls < 20) {
		begin = raw_now_ms();
		free_it(alloc(MIB));
		CHECK(raw_now_ms() - begin < 2 * TIMEOUT_MS + raw_slack_ms());
		calls++;
	}
	CHECK(calls > 1 && scripted.retellings == 1);
	CHECK(scripted.asked[gpushare_Request_hello_tag] == 1);
	for (int i = 0; i < 64; i++) {
		char name[8];

		snprintf(name, sizeof(name), "w%d", i);
		CHECK(is_told(name, 101 + (uint64_t)i));
	}
	scripted.nap_ms = 0;
	for (int i = 0; i < 64; i++)
		free_it(all[i]);
}

static void test_in_parts(void **state)
{
	(void)state;
	stage_play(tell_slowly, NULL);
}

/* Freed while no registry could be reached: found gone. */
static void free_without_one(void)
{
	cu_deviceptr one, two;

	act("w%i", NULL);
	one = alloc(MIB);
	two = alloc(MIB);
	scripted_end();
	free_it(one);
	restart();
	raw_sleep_ms(100);
	free_it(alloc(MIB));
	CHECK(scripted.retellings == 1 && scripted.shared_count == 1 && is_told("w1", 102));
	free_it(two);
	CHECK(!live_any());
}

static void test_freed_without_one(void **state)
{
	(void)state;
	stage_play(free_without_one, NULL);
}

/* A child has nothing to tell, and the parent's lease stays. */
static void fork_in_between(void)
{
	cu_deviceptr one;
	int status;
	pid_t pid;

	act("w%i", NULL);
	one = alloc(MIB);
	restart();
	pid = fork();
	if (!pid) {
		cu_deviceptr pointer;

		part_driver()->cuMemAlloc_v2(&pointer, MIB);
		buffers_free(part_driver()->cuMemFree_v2, one);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!scripted.asked[gpushare_Request_hello_tag]);
	free_it(alloc(MIB));
	CHECK(scripted.retellings == 1 && is_told("w0", 101));
	free_it(one);
}

static void test_a_child_tells_nothing(void **state)
{
	(void)state;
	stage_play(fork_in_between, NULL);
}

static void *race(void *rounds)
{
	cu_context context;
	cu_deviceptr pointer;

	CHECK(part_driver()->cuDevicePrimaryCtxRetain(&context, 0) == CU_OK);
	CHECK(part_driver()->cuCtxSetCurrent(context) == CU_OK);
	for (int i = 0; i < *(int *)rounds; i++) {
		CHECK(preloaded_alloc(&pointer, MIB) == CU_OK);
		CHECK(preloaded_works(pointer, MIB));
		CHECK(preloaded_free(pointer) == CU_OK);
	}
	return NULL;
}

/* Names that come and go while registries do: in the end what is shared is known, and no more. */
static void race_each_other(void)
{
	static int rounds = 200;
	cu_deviceptr held[4];
	pthread_t threads[3];
	char name[16];

	act("v%i:vmm", NULL);
	for (int i = 0; i < 4; i++)
		held[i] = alloc(MIB);
	memcpy(scripted.wants, (uint64_t[]){101, 102, 103, 104}, 4 * sizeof(uint64_t));
	scripted.wants_count = 4;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, race, &rounds));
	for (int i = 0; i < 10; i++) {
		raw_sleep_ms(20);
		restart();
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	raw_sleep_ms(1100);
	restart();
	raw_sleep_ms(100);
	free_it(alloc(MIB));
	CHECK(scripted.shared_count == 4 && !scripted.attached_count);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		CHECK(is_told(name, 101 + (uint64_t)i) && shared_as(name)->again);
		free_it(held[i]);
	}
	CHECK(!live_any());
}

static void test_threads(void **state)
{
	(void)state;
	stage_play(race_each_other, NULL);
}

#define staged(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    staged(test_all_is_told),
	    staged(test_memory_is_shared_again),
	    staged(test_objects_are_shared_again),
	    staged(test_a_name_that_was_lost),
	    staged(test_an_old_registry),
	    staged(test_one_that_fails_in_it),
	    staged(test_in_parts),
	    staged(test_freed_without_one),
	    staged(test_a_child_tells_nothing),
	    staged(test_threads),
	};

	(void)argc;
	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
