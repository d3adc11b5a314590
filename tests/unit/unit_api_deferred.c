/* SPDX-License-Identifier: MIT */
/* gpushare_free() of what others have attached, and what they are told. */
#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buffer/deferred.h"
#include "raw.h"
#include "stage.h"
#include "stopped.h"

#define MIB ((size_t)1 << 20)

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;

static unsigned int deferred(void)
{
	struct gpushare_registry_info info;

	OK(gpushare_stat_registry(session, &info));
	return (unsigned int)info.deferred;
}

static enum gpushare_state state_of(struct gpushare_buffer *one)
{
	enum gpushare_state state;

	OK(gpushare_state(one, &state));
	return state;
}

/* x, until it is told to leave it; what it holds stays. */
static void attach_and_leave(void)
{
	struct gpushare_attach_options options = {.wait_ms = 10000};

	hear();
	session = part_session();
	OK(gpushare_attach(session, "x", &options, &buffer));
	CHECK(state_of(buffer) == GPUSHARE_STATE_SHARED);
	say();
	hear();
	part_holds(buffer, 0, MIB, 5);
	CHECK(state_of(buffer) == GPUSHARE_STATE_WITHDRAWN);
	OK(gpushare_detach(buffer));
	say();
	hear();
	OK(gpushare_close(session));
}

static void begin(const char *limit, const char *faults)
{
	unsigned char *bytes = part_pattern(MIB, 5);

	setenv("GPUSHARE_DEFERRED_FREE", limit, 1);
	setenv("GPUSHARE_SIM_FAIL", faults, 1);
	session = part_session();
	OK(gpushare_alloc(session, "x", -1, MIB, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, MIB));
	free(bytes);
	say();
	hear();
}

static void end(void)
{
	say();
	hear();
	OK(gpushare_close(session));
	say();
}

static int first_name(const struct gpushare_info *info, void *user)
{
	CHECK(info->deferred && info->attachers == 1 && info->size == MIB);
	strcpy(user, info->name);
	return 0;
}

static void held(void)
{
	char name[GPUSHARE_NAME_MAX + 1] = "";
	struct gpushare_buffer *other;
	uint64_t pointer;

	begin("1Gi", "");
	pointer = gpushare_pointer(buffer);
	OK(gpushare_free(buffer));
	CHECK(deferred() == 1);
	OK(gpushare_list_deferred(session, "x*", first_name, name));
	CHECK(!strcmp(name, "x"));
	*name = '\0';
	OK(gpushare_list_deferred(session, "y", first_name, name));
	CHECK(!*name);
	say();
	hear();
	poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
	OK(gpushare_alloc(session, "y", -1, MIB, &other));
	CHECK(deferred() == 0);
	CHECK(gpushare_pointer(other) == pointer || part_driver()->cuMemFree_v2(pointer));
	OK(gpushare_free(other));
	OK(gpushare_close(session));
	say();
}

/* Freed at once: it is bigger than all that may be held, or can't be waited for. */
static void too_big(void)
{
	begin("1Mi", "");
	OK(gpushare_free(buffer));
	CHECK(deferred() == 0);
	end();
}

static void no_room_to_wait(void)
{
	begin("1Gi", "cuMemAlloc:2:1:2");
	OK(gpushare_free(buffer));
	CHECK(deferred() == 0);
	end();
}

static void closed(void)
{
	begin("1Gi", "");
	OK(gpushare_free(buffer));
	CHECK(deferred() == 1);
	OK(gpushare_close(session));
	session = part_session();
	CHECK(deferred() == 0);
	end();
}

/* A child neither frees nor asks. */
static void forked(void)
{
	enum gpushare_state state = GPUSHARE_STATE_KEPT;
	struct gpushare_buffer *other;
	int status;
	pid_t pid;

	begin("1Gi", "");
	OK(gpushare_alloc(session, "y", -1, MIB, &other));
	OK(gpushare_free(buffer));
	pid = fork();
	if (!pid) {
		FAILS(E_FORKED, "before fork", gpushare_state(other, &state));
		CHECK(state == GPUSHARE_STATE_KEPT);
		OK(gpushare_close(session));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(deferred() == 1);
	end();
}

static bool is_allocated(uint64_t pointer)
{
	cu_deviceptr base;
	size_t size;

	return !part_driver()->cuMemGetAddressRange_v2(&base, &size, pointer);
}

/* Whoever starts the next one. */
static void start_another(void)
{
	struct gpushare_session *starts;

	unsetenv("GPUSHARE_AUTOSTART");
	OK(gpushare_open(NULL, &starts));
	OK(gpushare_close(starts));
	setenv("GPUSHARE_AUTOSTART", "0", 1);
}

/* The registry is killed, and nobody starts another one for a while: others have x all the same. */
static void left_alone(void)
{
	struct gpushare_buffer *other;
	uint64_t pointer;

	start_another();
	begin("1Gi", "");
	pointer = gpushare_pointer(buffer);
	OK(gpushare_free(buffer));
	stage_end_registry();
	for (int i = 0; i < 2; i++) {
		poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
		FAILS(E_NO_REGISTRY, "no registry", gpushare_alloc(session, "y", -1, MIB, &other));
		CHECK(is_allocated(pointer));
	}
	start_another();
	poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
	OK(gpushare_alloc(session, "y", -1, MIB, &other));
	CHECK(is_allocated(pointer) && deferred() == 1);
	say();
	hear();
	poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
	OK(gpushare_alloc(session, "z", -1, MIB, &other));
	CHECK(deferred() == 0);
	OK(gpushare_close(session));
	say();
}

/* It left nothing that another could know of it by. */
static void left_for_good(void)
{
	struct gpushare_buffer *other;
	uint64_t pointer;
	char command[256];

	start_another();
	begin("1Gi", "");
	pointer = gpushare_pointer(buffer);
	OK(gpushare_free(buffer));
	stage_end_registry();
	snprintf(command, sizeof(command), "rm -f '%s'/registry.state*", getenv("GPUSHARE_DIR"));
	CHECK(!system(command));
	poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
	FAILS(E_NO_REGISTRY, "no registry", gpushare_alloc(session, "y", -1, MIB, &other));
	CHECK(!is_allocated(pointer));
	start_another();
	end();
}

/* The registry is stopped while it is given back: it may hear of that, and others may have it. */
static void left_unanswered(void)
{
	struct gpushare_buffer *other;
	int registry, first, second;
	uint64_t pointer;
	bool held;

	raw_set_limit(300);
	begin("1Gi", "");
	OK(gpushare_alloc(session, "y", -1, MIB, &other));
	pointer = gpushare_pointer(buffer);
	registry = stage_registry();
	CHECK(stopped(registry));
	first = gpushare_free(buffer);
	poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
	second = gpushare_free(other);
	held = is_allocated(pointer);
	CHECK(
	    !kill(registry, SIGCONT)); /* before anything can fail: whoever ends it waits for it */
	OK(first);
	OK(second);
	CHECK(held);
	poll(NULL, 0, 1100);
	OK(gpushare_alloc(session, "z", -1, MIB, &other));
	CHECK(is_allocated(pointer) && deferred() == 1);
	say();
	hear();
	poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
	OK(gpushare_free(other));
	CHECK(deferred() == 0 && !is_allocated(pointer));
	OK(gpushare_close(session));
	say();
}

static void attach_early(void)
{
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	attach_and_leave();
}

static void arguments(void)
{
	struct gpushare_registry_info info;
	enum gpushare_state state;

	session = part_session();
	OK(gpushare_alloc(session, "x", -1, MIB, &buffer));
	FAILS(E_INVALID, "buffer is NULL", gpushare_state(NULL, &state));
	FAILS(E_INVALID, "out_state is NULL", gpushare_state(buffer, NULL));
	FAILS(E_INVALID, "out_info is NULL", gpushare_stat_registry(session, NULL));
	FAILS(E_INVALID, "session is NULL", gpushare_stat_registry(NULL, &info));
	FAILS(E_INVALID, "visit is NULL", gpushare_list_deferred(session, NULL, NULL, NULL));
	CHECK(state_of(buffer) == GPUSHARE_STATE_SHARED);
	OK(gpushare_unlink(session, "x"));
	CHECK(state_of(buffer) == GPUSHARE_STATE_WITHDRAWN);
	OK(gpushare_stat_registry(session, &info));
	CHECK(info.names == 0 && info.connections == 1 && info.requests > 3 &&
	      info.started_unix_ns);
	CHECK(!strcmp(gpushare_state_text(GPUSHARE_STATE_REPLACED), "replaced"));
	CHECK(!strcmp(gpushare_state_text((enum gpushare_state)0), "unknown"));
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(held, attach_and_leave), SCENE(closed, attach_and_leave),
	   SCENE(forked, attach_and_leave), SCENE(left_alone, attach_early, stage_needs_autostart),
	   SCENE(left_for_good, attach_early, stage_needs_autostart),
	   SCENE(left_unanswered, attach_and_leave), SCENE(too_big, attach_and_leave),
	   SCENE(no_room_to_wait, attach_and_leave), SCENE(arguments))
