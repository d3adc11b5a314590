/* SPDX-License-Identifier: MIT */
/* Attaching again what is attached: without a question, and never what is not there any more. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "api/api_session.h"
#include "stage.h"

#define SIZE 100000
#define COLD 3 /* a session's first attaches of one buffer, until the next needs no question */

static struct gpushare_buffer *attached(struct gpushare_session *session, const char *name)
{
	struct gpushare_buffer *buffer = NULL;

	OK(gpushare_attach(session, name, NULL, &buffer));
	return buffer;
}

/* Was the registry asked meanwhile? */
static bool is_asked(struct gpushare_session *session)
{
	static uint32_t before;
	bool asked = session->client->next_id != before;

	before = session->client->next_id;
	return asked;
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

static unsigned int attachers(struct gpushare_session *session, const char *name)
{
	struct gpushare_info info;

	OK(gpushare_stat(session, name, &info));
	return info.attachers;
}

static void own(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *x, *y;

	OK(gpushare_alloc(session, "x", 0, SIZE, &x));
	say();
	hear(); /* it is warm there: another name's coming and going is nothing to it */
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
	/* The address is the registry's to tell. */
	FAILS(E_ADDRESS_TAKEN, "attached here already",
	      gpushare_attach(session, "x", &same, &other));
	CHECK(is_asked(session));
	CHECK(attachers(session, "x") == COLD);
	is_asked(session);
	detach_all(x, 2); /* what the registry does not know of goes first */
	CHECK(!is_asked(session) && attachers(session, "x") == COLD);
	detach_all(x, 1);
	CHECK(attachers(session, "x") == COLD - 1);
	say();
	hear(); /* withdrawn */
	FAILS(E_NOT_FOUND, "x", gpushare_attach(session, "x", NULL, &other));
	say();
	hear(); /* and there anew, while the old one is attached still */
	other = warmed(session, "x", 1);
	CHECK(other != x && gpushare_size(other) == 2 * SIZE && gpushare_size(x) == SIZE);
	CHECK(attached(session, "x") == other);
	detach_all(x, COLD - 1);
	detach_all(other, 3);
	CHECK(attachers(session, "x") == 0);
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
	in_threads(session); /* the last one of them unmaps it, again and again */
	CHECK(!session->buffers && attachers(owner, "x") == 0);
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

STAGE_MAIN(SCENE(own, use), SCENE(own_process), SCENE(threads))
