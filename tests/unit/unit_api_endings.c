/* SPDX-License-Identifier: MIT */
/* What takes two questions, or a descriptor, while one registry after the other ends with the second of them, or
 * with that, in its hands: it is had of the next that lives long enough, by the deadline. */
#include "unit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/api_session.h"
#include "order_page.h"
#include "raw.h"
#include "scripted.h"
#include "stage.h"

#define MIB ((size_t)1 << 20)
#define ENDINGS (CLIENT_TRIES + 1) /* more than one registry is asked */
#define TIMEOUT_MS 5000
#define SHORT_MS 120

/* The scripted registry is one process; where `process` is more than 0, each connection is to another one. */
static _Atomic int process;

int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	int result = (int)syscall(SYS_getsockopt, fd, level, name, value, size);

	if (!result && level == SOL_SOCKET && name == SO_PEERCRED && process)
		((struct ucred *)value)->pid = process++;
	return result;
}

static struct gpushare_session *act(unsigned int timeout_ms)
{
	const struct gpushare_open_options options = {.timeout_ms = timeout_ms};
	struct gpushare_session *session = NULL;

	scripted = (struct scripted){.generation = 100, .gives_latest = true};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	process = 1000;
	OK(gpushare_open(&options, &session));
	return session;
}

static int make(struct gpushare_session *session, const char *name, uint32_t flags, int adopt,
		struct gpushare_buffer **out_buffer)
{
	const struct gpushare_alloc_options options = {
	    .flags = GPUSHARE_FLAG_KEEP | flags, .device = -1, .adopt = adopt};

	return gpushare_alloc_with(session, name, 2 * MIB, &options, out_buffer);
}

/* What each attach gets from now on. */
static void give_memory(void)
{
	struct vmm_mapping memory;

	CHECK(vmm_make(part_driver(), 2 * MIB, 0, &memory) == CU_OK);
	CHECK(part_driver()->cuMemExportToShareableHandle(
		  &scripted.memory, memory.handle, (cu_handle_type)CU_HANDLE_POSIX_FD, 0) == CU_OK);
}

static void share(void)
{
	struct gpushare_session *session = act(TIMEOUT_MS);
	struct gpushare_buffer *buffer;

	scripted.lose_fds = ENDINGS;
	OK(make(session, "w", 0, 0, &buffer));
	CHECK(!scripted.lose_fds && scripted.came == ENDINGS + 1);
	CHECK(scripted.shares_count == 1);
	OK(gpushare_close(session));
}

static void adopt(void)
{
	struct gpushare_session *session = act(TIMEOUT_MS);
	struct gpushare_buffer *buffer;

	give_memory();
	scripted.lose_fds = ENDINGS;
	OK(make(session, "w", 0, 1, &buffer));
	CHECK(gpushare_was_adopted(buffer) && scripted.given == ENDINGS + 1);
	CHECK(!scripted.asked[gpushare_Request_withdraw_tag]);
	OK(gpushare_close(session));
}

/* As another process's. */
static struct gpushare_session *act_attacher(unsigned int timeout_ms)
{
	struct gpushare_session *session = act(timeout_ms);
	struct gpushare_buffer *buffer;

	OK(make(session, "w", 0, 0, &buffer));
	OK(gpushare_free(buffer));
	give_memory();
	return session;
}

static void attach(void)
{
	struct gpushare_session *session = act_attacher(TIMEOUT_MS);
	struct gpushare_buffer *buffer;

	scripted.lose_fds = ENDINGS;
	OK(gpushare_attach(session, "w", NULL, &buffer));
	CHECK(!scripted.lose_fds && scripted.given == ENDINGS + 1);
	OK(gpushare_close(session));
}

/* The first is told where to ask; the next ones ask there at once. */
static void attach_again(void)
{
	struct gpushare_session *session = act_attacher(TIMEOUT_MS);
	struct gpushare_buffer *buffer;

	for (unsigned int i = 0; i < 3; i++) {
		OK(gpushare_attach(session, "w", NULL, &buffer));
		OK(gpushare_detach(buffer));
		CHECK(scripted.given == 1 + i);
		CHECK(scripted.asked[gpushare_Request_attach_tag] == 2 + i);
	}
	OK(gpushare_close(session));
}

/* One that closes each connection does not want us. */
static void attach_to_the_same(void)
{
	struct gpushare_session *session = act_attacher(TIMEOUT_MS);
	struct gpushare_buffer *buffer = NULL;

	process = 0;
	scripted.lose_fds = ENDINGS;
	CHECK(gpushare_attach(session, "w", NULL, &buffer) < 0 && !buffer);
	scripted_lock(); /* nothing was answered that would say that it is done */
	CHECK(scripted.given == CLIENT_TRIES);
	scripted_unlock();
	OK(gpushare_close(session));
}

static void attach_in_time(void)
{
	struct gpushare_session *session = act_attacher(SHORT_MS);
	struct gpushare_buffer *buffer = NULL;
	long long began_ms = raw_now_ms();

	scripted.lose_fds = SCRIPTED_MAX;
	CHECK(gpushare_attach(session, "w", NULL, &buffer) < 0 && !buffer);
	scripted_lock();
	CHECK(scripted.lose_fds && scripted.given > 1);
	scripted_unlock();
	CHECK(raw_now_ms() - began_ms <= 3 * SHORT_MS + raw_slack_ms());
	OK(gpushare_close(session));
}

static void publish(void)
{
	struct gpushare_session *session = act(TIMEOUT_MS);
	struct gpushare_buffer *buffer;

	OK(make(session, "w", 0, 0, &buffer));
	scripted.memory = order_page_make(buffer->info.generation, 1);
	scripted.lose_fds = ENDINGS;
	OK(gpushare_publish(buffer, NULL, NULL));
	CHECK(scripted.given == ENDINGS + 1);
	OK(gpushare_close(session));
}

static void commit(void)
{
	struct gpushare_session *session = act(TIMEOUT_MS);
	struct gpushare_buffer *buffer;

	OK(make(session, "w", GPUSHARE_FLAG_STAGED, 0, &buffer));
	scripted.lose_staged = ENDINGS;
	OK(gpushare_commit(buffer));
	CHECK(!scripted.lose_staged);
	CHECK(scripted.asked[gpushare_Request_commit_tag] == 2 * ENDINGS + 1);
	OK(gpushare_close(session));
}

STAGE_MAIN_SCRIPTED(SCENE(share), SCENE(adopt), SCENE(attach), SCENE(attach_again), SCENE(publish),
		    SCENE(attach_to_the_same), SCENE(attach_in_time), SCENE(commit))
