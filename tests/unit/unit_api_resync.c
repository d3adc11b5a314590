/* SPDX-License-Identifier: MIT */
/* What a session tells a restarted registry, and which buffers it shares with it again. */
#include "unit.h"

#include "api/api_session.h"
#include "raw.h"
#include "scripted.h"
#include "stage.h"

#define MIB ((size_t)1 << 20)
#define TIMEOUT_MS raw_limit_ms(600)

/* Open a session with a registry that the test plays. */
static struct gpushare_session *act(void)
{
	const struct gpushare_open_options options = {.timeout_ms = TIMEOUT_MS};
	struct gpushare_session *session = NULL;

	scripted = (struct scripted){.generation = 100};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	OK(gpushare_open(&options, &session));
	return session;
}

static void restart(void)
{
	scripted_end();
	scripted.shares_count = 0;
	scripted.came = 0;
	memset(scripted.asked, 0, sizeof(scripted.asked));
	scripted_start();
}

static struct gpushare_buffer *make(struct gpushare_session *session, const char *name,
				    unsigned int flags)
{
	const struct gpushare_alloc_options options = {.flags = flags, .device = -1};
	struct gpushare_buffer *buffer = NULL;

	OK(gpushare_alloc_with(session, name, MIB, &options, &buffer));
	return buffer;
}

static bool is_told(const char *name, uint64_t generation)
{
	for (size_t i = 0; i < scripted.shared_count; i++)
		if (!strcmp(scripted.shared[i].name, name))
			return scripted.shared[i].generation == generation;
	return false;
}

static const gpushare_Share *shared_as(const char *name)
{
	for (size_t i = 0; i < scripted.shares_count; i++)
		if (!strcmp(scripted.shares[i].buffer.name, name))
			return &scripted.shares[i];
	part_fail(__FILE__, __LINE__, "%s was not shared again", name);
	return NULL;
}

static void ask(struct gpushare_session *session)
{
	struct gpushare_info info;

	FAILS(E_NOT_FOUND, "", gpushare_stat(session, "nothing", &info));
}

static void tell_all(void)
{
	struct gpushare_session *session = act();
	struct gpushare_buffer *all[20];
	char name[16];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		all[i] = make(session, name, 0);
	}
	OK(gpushare_free(all[7]));
	restart();
	ask(session);
	CHECK(scripted.resyncings == 1 && scripted.shared_count == 19);
	CHECK(scripted.asked[gpushare_Request_resync_tag] == 3 && !scripted.shares_count);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		CHECK(is_told(name, 101 + (uint64_t)i) == (i != 7));
	}
	make(session, "w7", 0);
	CHECK(scripted.resyncings == 1);
	/* a buffer freed while there is no registry is not told to the next one */
	scripted_end();
	OK(gpushare_free(all[0]));
	scripted_start();
	OK(gpushare_free(all[1]));
	CHECK(scripted.resyncings == 2 && !is_told("w0", 101) && is_told("w2", 103));
	OK(gpushare_close(session));
}

static void want_some(void)
{
	static gpushare_Share first[3];
	struct gpushare_session *session = act();
	struct gpushare_buffer *shared;
	cu_deviceptr plain;

	make(session, "ipc", 0);
	make(session, "kept", GPUSHARE_FLAG_KEEP);
	CHECK(part_driver()->cuMemAlloc_v2(&plain, 2 * MIB) == CU_OK);
	OK(gpushare_share(session, "part", plain + 4096, MIB, &shared));
	memcpy(first, scripted.shares, sizeof(first));
	restart();
	memcpy(scripted.wants, (uint64_t[]){101, 102, 103}, 3 * sizeof(uint64_t));
	scripted.wants_count = 3;
	ask(session); /* sharing again must keep the request's error text */
	CHECK(scripted.shares_count == 3 && scripted.came == 1);
	for (int i = 0; i < 3; i++) {
		const gpushare_Share *again = shared_as(first[i].buffer.name);

		CHECK(again->again == 101 + (uint64_t)i && !again->orphan);
		CHECK(!memcmp(&again->buffer, &first[i].buffer, sizeof(first[i].buffer)));
		CHECK(!memcmp(again->handle, first[i].handle, sizeof(first[i].handle)));
		CHECK(scripted.brought[again - scripted.shares] ==
		      backing_is_fd(first[i].buffer.backing));
	}
	/* the name now belongs to another buffer */
	scripted.share_status = GPUSHARE_E_EXISTS;
	restart();
	ask(session);
	CHECK(scripted.shares_count == 3);
	scripted.wants_count = 0;
	restart();
	ask(session);
	CHECK(scripted.shared_count == 0);
	OK(gpushare_free(shared));
	OK(gpushare_close(session));
}

/* An unresponsive registry costs one timeout, and closing doesn't wait again for each buffer. */
static void wait_for_it(void)
{
	struct gpushare_session *session = act();
	struct gpushare_info info;
	long long begin;

	for (int i = 0; i < 4; i++)
		make(session, (char[]){(char)('a' + i), '\0'}, 0);
	restart();
	scripted.mute_at = gpushare_Request_resync_tag;
	begin = raw_now_ms();
	FAILS(E_TIMED_OUT, "in time", gpushare_stat(session, "x", &info));
	CHECK(raw_now_ms() - begin < TIMEOUT_MS + 300 + raw_slack_ms());
	begin = raw_now_ms();
	OK(gpushare_close(session));
	CHECK(raw_now_ms() - begin < TIMEOUT_MS + 300 + raw_slack_ms());
}

/* The registry ends after its answer and before its descriptor arrives. The next one is asked
 * again. */
static void adopt_twice(void)
{
	const struct gpushare_alloc_options adopting = {
	    .flags = GPUSHARE_FLAG_KEEP, .device = -1, .adopt = 1};
	struct gpushare_session *session = act();
	struct gpushare_buffer *buffer;
	struct vmm_mapping memory;

	CHECK(vmm_make(part_driver(), 2 * MIB, 0, &memory) == CU_OK);
	CHECK(part_driver()->cuMemExportToShareableHandle(
		  &scripted.memory, memory.handle, (cu_handle_type)CU_HANDLE_POSIX_FD, 0) == CU_OK);
	make(session, "other", 0);
	scripted.lose_fds = 1;
	OK(gpushare_alloc_with(session, "w", 2 * MIB, &adopting, &buffer));
	CHECK(gpushare_was_adopted(buffer) && buffer->info.generation == 102);
	CHECK(scripted.given == 2 && scripted.resyncings == 1);
	CHECK(scripted.shared_count == 1 && is_told("other", 101) && !is_told("w", 102));
	CHECK(!scripted.asked[gpushare_Request_withdraw_tag]);
	OK(gpushare_close(session));
	close(scripted.memory);
}

STAGE_MAIN_SCRIPTED(SCENE(tell_all), SCENE(want_some), SCENE(wait_for_it), SCENE(adopt_twice))
