/* SPDX-License-Identifier: MIT */
/* Named events, and who shares what is none, gives out another thing, or was started anew. */
#include "unit.h"

#include <stdio.h>

#include "api/api_session.h"
#include "raw.h"
#include "scripted.h"
#include "stage.h"

static struct gpushare_event *const UNTOUCHED = (struct gpushare_event *)(uintptr_t)16;

static struct gpushare_event *create(struct gpushare_session *session, const char *name)
{
	struct gpushare_event *event = NULL;

	OK(gpushare_event_create(session, name, -1, 0, &event));
	return event;
}

/* A handle that CUDA never made, and an address that is no event here. */
static void lie(struct gpushare_session *session, const char *name, uint64_t address)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	record *what = &ask.verb.share.buffer;
	gpushare_ShareReply answer;

	ask.verb.share.has_buffer = true;
	strcpy(what->name, name);
	what->backing = GPUSHARE_BACKING_EVENT;
	what->address = address;
	memset(ask.verb.share.handle, 0x5a, sizeof(ask.verb.share.handle));
	CHECK(part_driver()->cuDeviceGetUuid_v2((cu_uuid *)what->device_uuid, 0) == CU_OK);
	OK(session_ask(session, &ask, gpushare_Reply_share_tag, &answer, sizeof(answer)));
}

static void liar(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED;

	lie(session, "lie", 0xdeadbeef);
	FAILS(E_NOT_SUPPORTED, "another copy", gpushare_event_open(session, "lie", NULL, &event));
	say();
	hear();
	CHECK(event == UNTOUCHED);
	OK(gpushare_close(session));
}

static void believer(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED;

	hear();
	FAILS(E_OWNER_GONE, "lie", gpushare_event_open(session, "lie", NULL, &event));
	CHECK(event == UNTOUCHED);
	OK(gpushare_close(session));
	say();
}

/* A registry that this part plays. */
static struct gpushare_session *act(void)
{
	const struct gpushare_open_options options = {.timeout_ms = raw_limit_ms(600)};
	struct gpushare_session *session = NULL;

	scripted = (struct scripted){.generation = 100};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	OK(gpushare_open(&options, &session));
	return session;
}

/* One that knows of no events, or mistakes the one for the other. */
static void strange_registry(void)
{
	struct gpushare_session *session = act();
	struct gpushare_event *event = UNTOUCHED;
	struct gpushare_buffer *buffer;

	scripted.gives_latest = true;
	OK(gpushare_alloc(session, "b", -1, 1, &buffer));
	FAILS(E_PROTOCOL, "'b'", gpushare_event_open(session, "b", NULL, &event));
	CHECK(event == UNTOUCHED && scripted.asked[gpushare_Request_detach_tag] == 1);
	create(session, "e");
	FAILS(E_PROTOCOL, "'e'", gpushare_attach(session, "e", NULL, &buffer));
	CHECK(scripted.asked[gpushare_Request_detach_tag] == 2);
	OK(gpushare_close(session));
}

/* One that was started anew, and wants what it does not have. */
static void wanting_registry(void)
{
	static gpushare_Share first;
	struct gpushare_session *session = act();
	struct gpushare_event *event = create(session, "e");
	struct gpushare_info info;

	first = scripted.shares[0];
	CHECK(first.buffer.backing == GPUSHARE_BACKING_EVENT && !first.buffer.size);
	CHECK(first.buffer.address == (uintptr_t)gpushare_event_handle(event));
	scripted_end();
	scripted.shares_count = 0;
	scripted.wants[0] = 101;
	scripted.wants_count = 1;
	scripted_start();
	FAILS(E_NOT_FOUND, "", gpushare_stat(session, "nothing", &info));
	CHECK(scripted.resyncings == 1 && scripted.shares_count == 1);
	CHECK(scripted.shares[0].again == 101 && !scripted.shares[0].orphan);
	CHECK(!memcmp(&scripted.shares[0].buffer, &first.buffer, sizeof(first.buffer)));
	CHECK(!memcmp(scripted.shares[0].handle, first.handle, sizeof(first.handle)));
	/* nobody there: what is done with an event goes on */
	scripted_end();
	OK(gpushare_event_record(event, NULL));
	OK(gpushare_event_wait_host(event, 1000));
	OK(gpushare_event_wait(event, NULL));
	FAILS(E_NO_REGISTRY, "", gpushare_event_create(session, "f", -1, 0, &event));
	OK(gpushare_event_close(event));
	OK(gpushare_close(session));
}

STAGE_MAIN_SCRIPTED(SCENE(liar, believer), SCENE(strange_registry), SCENE(wanting_registry))
