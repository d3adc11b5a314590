/* SPDX-License-Identifier: MIT */
/* Look-ups that need no question, and when they need one again. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "api/api_session.h"
#include "stage.h"

#define SIZE 100000
#define COLD 2 /* a connection's first look-ups, which ask */

/* Was the registry asked meanwhile? */
static bool is_asked(struct gpushare_session *session)
{
	static uint32_t before;
	bool asked = session->client->next_id != before;

	before = session->client->next_id;
	return asked;
}

static struct gpushare_info looked_up(struct gpushare_session *session, const char *name, bool asks)
{
	struct gpushare_info info;

	is_asked(session);
	OK(gpushare_stat(session, name, &info));
	CHECK(is_asked(session) == (asks || stage_is_emulated()));
	return info;
}

static void warm(struct gpushare_session *session, const char *name)
{
	for (int i = 0; i < COLD; i++)
		looked_up(session, name, true);
}

static void same_answers(void)
{
	const struct gpushare_alloc_options kept = {.flags = GPUSHARE_FLAG_KEEP, .ttl_s = 60};
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_info asked, found;
	struct gpushare_buffer *x, *k, *there;
	enum gpushare_state state;

	OK(gpushare_alloc(session, "x", 0, SIZE, &x));
	OK(gpushare_alloc_with(session, "k", SIZE, &kept, &k));
	asked = looked_up(other, "x", true);
	looked_up(other, "x", true);
	found = looked_up(other, "x", false);
	CHECK(!memcmp(&asked, &found, sizeof(found)));
	OK(gpushare_attach(session, "x", NULL, &there));
	OK(gpushare_detach(there));
	OK(gpushare_attach(other, "x", NULL, &there));
	is_asked(other);
	OK(gpushare_state(there, &state));
	CHECK(state == GPUSHARE_STATE_SHARED && (stage_is_emulated() || !is_asked(other)));
	OK(gpushare_free(k));
	found = looked_up(other, "k", false);
	CHECK(!found.owner_alive && found.ttl_left_s > 50 && found.ttl_left_s <= 60);
	OK(gpushare_unlink(session, "k"));
	FAILS(E_NOT_FOUND, "unlinked", gpushare_stat(other, "k", &found));
	OK(gpushare_unlink(session, "x"));
	OK(gpushare_state(there, &state));
	CHECK(state == GPUSHARE_STATE_WITHDRAWN);
	OK(gpushare_detach(there));
	OK(gpushare_close(other));
	OK(gpushare_close(session));
}

/* What a registry said before it was killed says nothing; its successor has an index of its own. */
static void lose_registry(void)
{
	struct gpushare_session *session = part_session(), *manual;
	const struct gpushare_open_options options = {.timeout_ms = 2000, .no_autostart = 1};
	struct gpushare_info info;
	struct gpushare_buffer *x;

	OK(gpushare_open(&options, &manual));
	OK(gpushare_alloc(session, "x", 0, SIZE, &x));
	warm(manual, "x");
	warm(session, "x");
	looked_up(manual, "x", false);
	stage_end_registry();
	FAILS(E_NO_REGISTRY, "", gpushare_stat(manual, "x", &info));
	OK(gpushare_stat(session, "x", &info)); /* which starts one, and tells it */
	looked_up(session, "x", true);
	looked_up(session, "x", false);
	OK(gpushare_close(manual));
	OK(gpushare_close(session));
}

static void *look_up_all(void *argument)
{
	struct gpushare_session *session = argument;
	struct gpushare_info info;

	for (int i = 0; i < 2000; i++) {
		OK(gpushare_stat(session, "x", &info));
		CHECK(info.size == SIZE || info.size == 2 * SIZE);
	}
	return NULL;
}

static void in_threads(void)
{
	const struct gpushare_alloc_options kept = {.flags = GPUSHARE_FLAG_KEEP};
	struct gpushare_session *session = part_session(), *owner = part_session();
	struct gpushare_buffer *x;
	pthread_t thread[3];

	OK(gpushare_alloc_with(owner, "x", SIZE, &kept, &x));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread[i], NULL, look_up_all, session));
	for (int i = 1; i < 40; i++) { /* each a generation more, in place of the one before */
		OK(gpushare_free(x));
		OK(gpushare_alloc_with(owner, "x", (size_t)(1 + i % 2) * SIZE, &kept, &x));
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

STAGE_MAIN(SCENE(same_answers), SCENE(lose_registry, NULL, stage_needs_autostart),
	   SCENE(in_threads))
