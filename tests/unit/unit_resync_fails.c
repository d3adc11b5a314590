/* SPDX-License-Identifier: MIT */
/* Registries that fail during a resync, and what happens meanwhile. */
#include "unit.h"

#include "raw.h"
#include "resynced.h"

/* A mute registry delays the program no longer than any failing one, and a later resync
 * succeeds. */
static void wait_for_it(void)
{
	cu_deviceptr one, two;
	long long begin;

	resynced_act("w%i", NULL);
	one = resynced_alloc(MIB);
	resynced_restart();
	scripted.mute_at = gpushare_Request_resync_tag;
	begin = raw_now_ms();
	two = resynced_alloc(MIB);
	CHECK(raw_now_ms() - begin < RETOLD_TIMEOUT_MS + 300 + raw_slack_ms());
	resynced_free(two);
	CHECK(raw_now_ms() - begin < RETOLD_TIMEOUT_MS + 300 + raw_slack_ms());
	scripted.mute_at = 0;
	raw_sleep_ms(1100);
	resynced_free(resynced_alloc(MIB));
	/* One resync was answered too late, the other repeats it. */
	CHECK(scripted.resyncings == 2 && scripted.shared_count == 1);
	/* a registry that ends in the middle of a resync */
	resynced_restart();
	scripted.end_at = gpushare_Request_resync_tag;
	two = resynced_alloc(MIB); /* has no name */
	resynced_restart();
	raw_sleep_ms(100);
	resynced_free(resynced_alloc(MIB));
	CHECK(scripted.resyncings == 3 && resynced_is_told("w0", 101));
	resynced_free(two);
	resynced_free(one);
}

/* A resync that takes longer than one call may: the next calls send the rest. */
static void tell_slowly(void)
{
	cu_deviceptr all[64];
	unsigned int calls = 0;
	long long begin;

	resynced_act("w%i", NULL);
	for (int i = 0; i < 64; i++)
		all[i] = resynced_alloc(MIB);
	resynced_restart();
	scripted.nap_ms = 100;
	while (!scripted.resyncings && calls < 20) {
		begin = raw_now_ms();
		resynced_free(resynced_alloc(MIB));
		CHECK(raw_now_ms() - begin < 2 * RETOLD_TIMEOUT_MS + raw_slack_ms());
		calls++;
	}
	CHECK(calls > 1 && scripted.resyncings == 1);
	CHECK(scripted.asked[gpushare_Request_hello_tag] == 1);
	for (int i = 0; i < 64; i++) {
		char name[8];

		snprintf(name, sizeof(name), "w%d", i);
		CHECK(resynced_is_told(name, 101 + (uint64_t)i));
	}
	scripted.nap_ms = 0;
	for (int i = 0; i < 64; i++)
		resynced_free(all[i]);
}

/* Memory that was freed while no registry could be reached is left out of the resync. */
static void free_without_one(void)
{
	cu_deviceptr one, two;

	resynced_act("w%i", NULL);
	one = resynced_alloc(MIB);
	two = resynced_alloc(MIB);
	scripted_end();
	resynced_free(one);
	resynced_restart();
	raw_sleep_ms(100);
	resynced_free(resynced_alloc(MIB));
	CHECK(scripted.resyncings == 1 && scripted.shared_count == 1 &&
	      resynced_is_told("w1", 102));
	resynced_free(two);
	CHECK(!live_any());
}

/* A forked child sends no resync, and the parent's session stays. */
static void fork_in_between(void)
{
	cu_deviceptr one;
	int status;
	pid_t pid;

	resynced_act("w%i", NULL);
	one = resynced_alloc(MIB);
	resynced_restart();
	pid = fork();
	if (!pid) {
		cu_deviceptr pointer;

		part_driver()->cuMemAlloc_v2(&pointer, MIB);
		buffers_free(part_driver()->cuMemFree_v2, one);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!scripted.asked[gpushare_Request_hello_tag]);
	resynced_free(resynced_alloc(MIB));
	CHECK(scripted.resyncings == 1 && resynced_is_told("w0", 101));
	resynced_free(one);
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

/* Names appear and end while registries restart. At the end the registry knows exactly the names
 * that are still shared. */
static void race_each_other(void)
{
	static int rounds = 200;
	cu_deviceptr held[4];
	pthread_t threads[3];
	char name[16];

	resynced_act("v%i:vmm", NULL);
	for (int i = 0; i < 4; i++)
		held[i] = resynced_alloc(MIB);
	memcpy(scripted.wants, (uint64_t[]){101, 102, 103, 104}, 4 * sizeof(uint64_t));
	scripted.wants_count = 4;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, race, &rounds));
	for (int i = 0; i < 10; i++) {
		raw_sleep_ms(20);
		resynced_restart();
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	raw_sleep_ms(1100);
	resynced_restart();
	raw_sleep_ms(100);
	resynced_free(resynced_alloc(MIB));
	CHECK(scripted.shared_count == 4 && !scripted.attached_count);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		CHECK(resynced_is_told(name, 101 + (uint64_t)i) && resynced_share(name)->again);
		resynced_free(held[i]);
	}
	CHECK(!live_any());
}

/* The registry ends between its answer and the descriptor: the shim asks the next registry
 * again. */
static void adopt_twice(void)
{
	const struct driver *driver = resynced_act("w:size=2Mi:keep:adopt,other", NULL);
	struct vmm_mapping memory;
	cu_deviceptr other, pointer;

	CHECK(vmm_make(driver, 2 * MIB, 0, &memory) == CU_OK);
	CHECK(driver->cuMemExportToShareableHandle(&scripted.memory, memory.handle,
						   (cu_handle_type)CU_HANDLE_POSIX_FD, 0) == CU_OK);
	other = resynced_alloc(MIB);
	scripted.lose_fds = 1;
	pointer = resynced_alloc(2 * MIB);
	CHECK(scripted.given == 2 && scripted.resyncings == 1 && scripted.generation == 102);
	CHECK(scripted.shared_count == 1 && resynced_is_told("other", 101));
	CHECK(!scripted.asked[gpushare_Request_withdraw_tag]);
	resynced_free(pointer);
	CHECK(scripted.asked[gpushare_Request_withdraw_tag] == 1);
	resynced_free(other);
	close(scripted.memory);
}

STAGE_MAIN_SCRIPTED(SCENE(wait_for_it), SCENE(tell_slowly), SCENE(free_without_one),
		    SCENE(fork_in_between), SCENE(race_each_other), SCENE(adopt_twice))
