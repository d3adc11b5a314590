/* SPDX-License-Identifier: MIT */
/* Look-ups and attaches that are answered from shared pages without a request, and when they
 * must ask again. They must never find a buffer that is gone. */
#include "unit.h"

#include "api/api_session.h"
#include "filled.h"

#define SIZE 100000
#define LOOKS 2 /* a connection's first look-ups, which ask the registry */

/* Return whether the session has sent a request since the last call. */
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

static void look_often(struct gpushare_session *session, const char *name)
{
	for (int i = 0; i < LOOKS; i++)
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

/* A killed registry's index is no longer believed; the next registry has its own. */
static void lose_registry(void)
{
	struct gpushare_session *session = part_session(), *manual;
	const struct gpushare_open_options options = {.timeout_ms = 2000, .no_autostart = 1};
	struct gpushare_info info;
	struct gpushare_buffer *x;

	OK(gpushare_open(&options, &manual));
	OK(gpushare_alloc(session, "x", 0, SIZE, &x));
	look_often(manual, "x");
	look_often(session, "x");
	looked_up(manual, "x", false);
	stage_end_registry();
	FAILS(E_NO_REGISTRY, "", gpushare_stat(manual, "x", &info));
	OK(gpushare_stat(session, "x", &info)); /* starts one and resyncs */
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

static void look_up_in_threads(void)
{
	const struct gpushare_alloc_options kept = {.flags = GPUSHARE_FLAG_KEEP};
	struct gpushare_session *session = part_session(), *owner = part_session();
	struct gpushare_buffer *x;
	pthread_t thread[3];

	OK(gpushare_alloc_with(owner, "x", SIZE, &kept, &x));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread[i], NULL, look_up_all, session));
	for (int i = 1; i < 40; i++) { /* each one a new generation */
		OK(gpushare_free(x));
		OK(gpushare_alloc_with(owner, "x", (size_t)(1 + i % 2) * SIZE, &kept, &x));
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

#define SIZE 100000
#define COLD 3 /* attaches that ask the registry before one needs no request */

static struct gpushare_buffer *attached(struct gpushare_session *session, const char *name)
{
	struct gpushare_buffer *buffer = NULL;

	OK(gpushare_attach(session, name, NULL, &buffer));
	return buffer;
}

static struct gpushare_buffer *warmed(struct gpushare_session *session, const char *name, int cold)
{
	struct gpushare_buffer *buffer = attached(session, name);

	for (int i = 1; i < cold; i++) {
		is_asked(session);
		CHECK(attached(session, name) == buffer && is_asked(session));
	}
	is_asked(session);
	CHECK(attached(session, name) == buffer && !is_asked(session));
	return buffer;
}

static void detach_all(struct gpushare_buffer *buffer, int count)
{
	while (count--)
		OK(gpushare_detach(buffer));
}

static void own(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *x, *y;

	OK(gpushare_alloc(session, "x", 0, SIZE, &x));
	say();
	hear(); /* the attach is warm there; changes of other names don't matter */
	OK(gpushare_alloc(session, "y", 0, SIZE, &y));
	OK(gpushare_free(y));
	say();
	hear();
	OK(gpushare_free(x));
	say();
	hear();
	OK(gpushare_alloc(session, "x", 0, 2 * SIZE, &x));
	say();
	hear();
	OK(gpushare_close(session));
}

static void use(void)
{
	const struct gpushare_attach_options same = {.same_address = 1};
	struct gpushare_buffer *x, *other = NULL;
	struct gpushare_session *session;

	hear();
	session = part_session();
	x = warmed(session, "x", COLD);
	say();
	hear();
	CHECK(attached(session, "x") == x && !is_asked(session));
	/* Only the registry can tell the address. */
	FAILS(E_ADDRESS_TAKEN, "attached here already",
	      gpushare_attach(session, "x", &same, &other));
	CHECK(is_asked(session));
	CHECK(part_attachers(session, "x") == COLD);
	is_asked(session);
	detach_all(x, 2); /* attaches without a request are detached first */
	CHECK(!is_asked(session) && part_attachers(session, "x") == COLD);
	detach_all(x, 1);
	CHECK(part_attachers(session, "x") == COLD - 1);
	say();
	hear(); /* x is withdrawn */
	FAILS(E_NOT_FOUND, "x", gpushare_attach(session, "x", NULL, &other));
	say();
	hear(); /* shared again; the old one is still attached */
	other = warmed(session, "x", 1);
	CHECK(other != x && gpushare_size(other) == 2 * SIZE && gpushare_size(x) == SIZE);
	CHECK(attached(session, "x") == other);
	detach_all(x, COLD - 1);
	detach_all(other, 3);
	CHECK(part_attachers(session, "x") == 0);
	OK(gpushare_close(session));
	say();
}

static void own_process(void)
{
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_buffer *x, *mine, *its;

	OK(gpushare_alloc(session, "x", 0, SIZE, &x));
	mine = warmed(session, "x", COLD);
	CHECK(gpushare_pointer(mine) == gpushare_pointer(x));
	its = warmed(other, "x", COLD);
	CHECK(its != mine);
	OK(gpushare_unlink(other, "x"));
	FAILS(E_NOT_FOUND, "unlinked", gpushare_attach(session, "x", NULL, &its));
	FAILS(E_NOT_FOUND, "unlinked", gpushare_attach(other, "x", NULL, &its));
	OK(gpushare_close(session));
	OK(gpushare_close(other));
}

static void *attach_and_detach(void *argument)
{
	struct gpushare_session *session = argument;

	for (int i = 0; i < 500; i++)
		OK(gpushare_detach(attached(session, "x")));
	return NULL;
}

static void in_threads(struct gpushare_session *session)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, attach_and_detach, session));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void threads(void)
{
	const struct gpushare_alloc_options mapped = {.flags = GPUSHARE_FLAG_VMM};
	struct gpushare_session *owner = part_session(), *session = part_session();
	struct gpushare_buffer *x, *warm;

	OK(gpushare_alloc_with(owner, "x", SIZE, &mapped, &x));
	warm = warmed(session, "x", COLD);
	in_threads(session);
	CHECK(warm->warm == 1 && warm->count == COLD);
	detach_all(warm, COLD + 1);
	in_threads(session); /* the last thread to detach unmaps it each time */
	CHECK(!session->buffers && part_attachers(owner, "x") == 0);
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

STAGE_MAIN(SCENE(same_answers), SCENE(lose_registry, NULL, stage_needs_autostart),
	   SCENE(look_up_in_threads), SCENE(own, use), SCENE(own_process), SCENE(threads))
