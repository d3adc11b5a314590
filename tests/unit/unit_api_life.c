/* SPDX-License-Identifier: MIT */
/* The API over the ends of things: forked children, lost registries, owners that die. */
#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"
#include "stage.h"

#define SIZE 100000

static struct gpushare_buffer *const UNTOUCHED = (struct gpushare_buffer *)(uintptr_t)16;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int sink(const void *data, size_t size, void *user)
{
	(void)data;
	(void)size;
	(void)user;
	return 0;
}

/* What an inherited session says in a child, and that closing it there takes nothing away. */
static void use_inherited(struct gpushare_session *session, struct gpushare_buffer *buffer)
{
	struct gpushare_buffer *other = UNTOUCHED;
	struct gpushare_session *mine;
	struct gpushare_info info;
	char byte = 0;

	FAILS(E_FORKED, "gpushare_open", gpushare_alloc(session, "y", 0, 1, &other));
	FAILS(E_FORKED, "fork", gpushare_attach(session, "x", NULL, &other));
	FAILS(E_FORKED, "fork", gpushare_share(session, "y", 4096, 1, &other));
	FAILS(E_FORKED, "fork", gpushare_stat(session, "x", &info));
	FAILS(E_FORKED, "fork", gpushare_unlink(session, "x"));
	FAILS(E_FORKED, "fork", gpushare_copy_to(buffer, 0, &byte, 1));
	FAILS(E_FORKED, "fork", gpushare_read(buffer, 0, 1, sink, NULL));
	FAILS(E_FORKED, "fork", gpushare_free(buffer));
	CHECK(other == UNTOUCHED);
	OK(gpushare_close(session));
	mine = part_session();
	OK(gpushare_stat(mine, "x", &info));
	CHECK(info.owner_pid == getppid());
	OK(gpushare_close(mine));
}

static void fork_with_session(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	struct gpushare_info info;
	int status;
	pid_t child;

	OK(gpushare_alloc(session, "x", 0, SIZE, &buffer));
	child = fork();
	if (!child) {
		use_inherited(session, buffer);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(gpushare_stat(session, "x", &info));
	OK(gpushare_free(buffer));
	OK(gpushare_close(session));
}

static void lose_registry(void)
{
	const struct gpushare_open_options options = {.timeout_ms = 2000, .no_autostart = 1};
	struct gpushare_session *session = NULL, *manual = NULL;
	struct gpushare_buffer *buffer, *other = UNTOUCHED;
	struct gpushare_info info;
	char left[128];
	double began;

	FAILS(E_NO_REGISTRY, "autostart is off", gpushare_open(&options, &session));
	CHECK(!session);
	session = part_session();
	OK(gpushare_open(&options, &manual));
	OK(gpushare_alloc(session, "x", 0, SIZE, &buffer));
	OK(gpushare_attach(manual, "x", NULL, &other));
	stage_end_registry();
	began = now_s();
	FAILS(E_NO_REGISTRY, "", gpushare_stat(manual, "x", &info));
	CHECK(now_s() - began < 2.5);
	/* What was attached and allocated stays usable, and goes back without a registry. */
	OK(gpushare_copy_from(other, 0, &info, sizeof(info)));
	OK(gpushare_detach(other));
	CHECK(stage_registry() == 0); /* this session must not start one */
	OK(gpushare_free(buffer));
	CHECK(stage_registry() > 0); /* which would have the name from its predecessor */
	FAILS(E_NOT_FOUND, "", gpushare_stat(manual, "x", &info));
	OK(gpushare_alloc(session, "x", 0, SIZE, &buffer));
	OK(gpushare_stat(manual, "x", &info));
	OK(gpushare_close(manual));
	stage_end_registry();
	snprintf(left, sizeof(left), "%s/" GPUSHARE_STATE, getenv("GPUSHARE_DIR"));
	CHECK(!unlink(left));
	OK(gpushare_close(session));
	CHECK(stage_registry() == 0); /* a new one would know nothing of it */
}

/* The name is withdrawn with its owner, however that ends. */
static void die_with_name(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;

	OK(gpushare_alloc(session, "mortal", 0, SIZE, &buffer));
	say();
	hear();
	_exit(0);
}

static void outlive_it(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer;
	struct gpushare_info info;
	double began;

	hear();
	OK(gpushare_attach(session, "mortal", NULL, &buffer));
	say();
	for (began = now_s(); gpushare_stat(session, "mortal", &info) == GPUSHARE_OK;)
		CHECK(now_s() - began < 5);
	FAILS(E_NOT_FOUND, "unit_api_life", gpushare_stat(session, "mortal", &info));
	OK(gpushare_detach(buffer));
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(fork_with_session, NULL, stage_needs_wipe_on_fork),
	   SCENE(lose_registry, NULL, stage_needs_autostart), SCENE(die_with_name, outlive_it))
