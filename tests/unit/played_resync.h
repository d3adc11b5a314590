/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PLAYED_RESYNC_H
#define GPUSHARE_TESTS_UNIT_PLAYED_RESYNC_H
/*
 * Replaces what resync.c and shim_resync.c call: the registry, the description of memory, and the
 * locks of the tables. The test sets how each behaves. Include it in one file of a program, after
 * cmocka.h and before those two .c files.
 */
#include <stdio.h>

#include "client/client.h"
#include "preload/shim_async.h"
#include "preload/shim_describe.h"
#include "preload/shim_link.h"
#include "preload/shim_live.h"
#include "preload/shim_lookup.h"
#include "preload/shim_objects.h"
#include "preload/shim_pages.h"
#include "preload/shim_process.h"
#include "preload/shim_state.h"
#include "stuck.h"

#define STEP ((uint64_t)2 << 20)

static struct {
	struct driver driver;
	const struct driver *standing;
	bool ending, async_stuck, objects_stuck, no_grow;
	/* the registry */
	int to_tell;
	bool cuts, wants_all, other_body;
	unsigned int tellings;
	size_t told_count;
	int to_share;
	uint64_t shared_as;
	unsigned int shares, withdrawals, pages_ended, pages_added;
	struct link_share last;
	struct memory last_what; /* a copy of *last.what */
	char last_name[GPUSHARE_NAME_MAX + 1];
	/* played_describe() */
	const char *call;
	bool refuses, frees_meanwhile, frees_late;
	char log[1024];
} played;

/* `client` has just made its second connection, so it must resync everything. */
static void played_begin(struct client *client)
{
	memset(&played, 0, sizeof(played));
	played.standing = &played.driver;
	memset(client, 0, sizeof(*client));
	client->socket.fd = 5;
	client->ready = true;
	client->fresh = true;
	client->connections = 2;
	client->session_key[0] = 1;
	resync_missed(&live_resync);
	setenv("GPUSHARE_TIMEOUT_MS", "2000", 1);
}

static void played_log(const char *format, ...)
{
	size_t length = strlen(played.log);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(played.log + length, sizeof(played.log) - length, format, arguments);
	va_end(arguments);
}

static bool played_async_list(struct resync *resync)
{
	assert_ptr_equal(resync, &live_resync);
	return !played.async_stuck;
}

static bool played_objects_list(struct resync *resync)
{
	return !played.objects_stuck && objects_list(resync);
}

static int played_tell(struct client *client, int64_t deadline_ms)
{
	const gpushare_Resync *part = &client->aside.verb.resync;
	gpushare_ResyncReply *answer = &client->reply.body.resync;

	assert_true(deadline_ms > 0);
	played.tellings++;
	memset(&client->reply, 0, sizeof(client->reply));
	if (played.cuts)
		client->socket.fd = -1;
	snprintf(client->why, sizeof(client->why), "as planned");
	client->reply.which_body =
	    played.other_body ? gpushare_Reply_list_tag : gpushare_Reply_resync_tag;
	if (played.to_tell || played.other_body)
		return played.to_tell;
	played.told_count += part->shared_count + part->attached_count;
	for (pb_size_t i = 0; played.wants_all && i < part->shared_count; i++)
		answer->wanted[answer->wanted_count++] = part->shared[i].generation;
	for (pb_size_t i = 0; played.wants_all && i < part->attached_count; i++)
		answer->wanted[answer->wanted_count++] = part->attached[i].generation;
	return GPUSHARE_OK;
}

static bool played_describe(const struct driver *driver, const struct live *entry,
			    struct description *out)
{
	struct live gone;

	assert_ptr_equal(driver, &played.driver);
	*out = (struct description){.fd = -1, .call = played.call, .result = CU_UNKNOWN};
	out->what.size = entry->size;
	if (played.frees_meanwhile)
		assert_true(live_take(entry->pointer, &gone));
	return !played.refuses;
}

static int played_share(const struct link_share *again, int64_t until_ms, uint64_t *out_generation,
			char *why, size_t why_size)
{
	struct live gone;

	assert_true(until_ms > 0);
	played.shares++;
	played.last = *again;
	played.last_what = *again->what;
	played.last_what.name = strcpy(played.last_name, again->what->name);
	*out_generation = played.shared_as ? played.shared_as : again->again;
	snprintf(why, why_size, "it is taken");
	if (played.frees_late)
		assert_true(live_take(STEP, &gone));
	return played.to_share;
}

static int played_withdraw(const char *name, uint64_t generation, const bool *deferred,
			   const char *why, size_t why_size)
{
	assert_true(*name && generation && !deferred && why && why_size);
	played.withdrawals++;
	return GPUSHARE_OK;
}

static void played_pages_add(const char *name, uint64_t generation)
{
	assert_true(*name && generation);
	played.pages_added++;
}

static void played_pages_end(uint64_t generation)
{
	assert_true(generation);
	played.pages_ended++;
}

static void *played_realloc(void *old, size_t size)
{
	return played.no_grow ? NULL : realloc(old, size);
}

#define realloc played_realloc
#define state_log played_log
#define async_list played_async_list
#define objects_list played_objects_list
#define client_ask_aside played_tell
#define describe_own played_describe
#define describe_attached played_describe
#define link_share_again played_share
#define link_withdraw played_withdraw
#define pages_add played_pages_add
#define pages_end played_pages_end
#define lookup_driver() played.standing
#define process_is_ending() played.ending

#endif
