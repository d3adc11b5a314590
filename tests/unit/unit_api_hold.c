/* SPDX-License-Identifier: MIT */
/* Open mirrors combined with restarts, deferred frees and attachments that need no request. Also
 * the one file descriptor that is held per buffer. */
#include "unit.h"

#include "api/api_session.h"
#include "filled.h"

#define SIZE ((size_t)1 << 20)
#define BOTH (GPUSHARE_READ | GPUSHARE_WRITE)
#define COLD 3 /* attaches that ask the registry before one needs no request */
#define LOW 256
#define HIGH 1024 /* held descriptors get numbers from LOW to HIGH */

static struct gpushare_buffer *attached(struct gpushare_session *session, const char *name,
					int host_only)
{
	const struct gpushare_attach_options options = {.host_only = host_only};
	struct gpushare_buffer *buffer;

	OK(gpushare_attach(session, name, &options, &buffer));
	return buffer;
}

/* Fill the buffer through the mirror. */
static void refill(struct gpushare_mirror *mirror, unsigned int seed)
{
	unsigned char *bytes = part_pattern(SIZE, seed);

	memcpy(gpushare_mirror_data(mirror), bytes, SIZE);
	free(bytes);
	OK(gpushare_mirror_close(mirror));
}

static void turn(void)
{
	say();
	hear();
}

static void own(void)
{
	struct gpushare_session *session = part_session();

	part_filled(session, "x", SIZE, 1);
	turn();
	OK(gpushare_close(session));
}

/* A detached buffer that a mirror still holds is attached again without a request. */
static void attach_warm(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *x = NULL;
	struct gpushare_mirror *mirror;
	uint32_t asked;

	hear();
	session = part_session();
	for (int i = 0; i <= COLD; i++)
		x = attached(session, "x", 0);
	CHECK(x->count == COLD && x->warm == 1);
	OK(gpushare_mirror_open(x, 0, SIZE, BOTH, &mirror));
	for (int i = 0; i <= COLD; i++)
		OK(gpushare_detach(x));
	CHECK(part_attachers(session, "x") == 1);
	asked = session->client->next_id;
	CHECK(attached(session, "x", 0) == x);
	refill(mirror, 2);
	CHECK(session->client->next_id == asked && part_attachers(session, "x") == 1);
	part_holds(x, 0, SIZE, 2);
	OK(gpushare_detach(x));
	CHECK(part_attachers(session, "x") == 0 && !session->buffers);
	OK(gpushare_close(session));
	say();
}

/* Only what the clients repeat survives. */
static void lose_registry(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/registry.state", getenv("GPUSHARE_DIR"));
	CHECK(!unlink(path));
	stage_end_registry();
}

/* The registry is lost while y is freed with an open mirror and x is shared. */
static void own_two(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *y = part_filled(session, "y", SIZE, 2);
	struct gpushare_mirror *mirror;
	struct gpushare_info info;

	part_filled(session, "x", SIZE, 1);
	OK(gpushare_mirror_open(y, 0, SIZE, BOTH, &mirror));
	turn();
	OK(gpushare_free(y));
	lose_registry();
	FAILS(E_NOT_FOUND, "y", gpushare_stat(session, "y", &info));
	OK(gpushare_stat(session, "x", &info));
	turn();
	FAILS(E_NOT_FOUND, "y", gpushare_stat(session, "y", &info));
	OK(gpushare_mirror_close(mirror));
	OK(gpushare_close(session));
	say();
}

/* x is detached but mirrored. z is attached with CUDA, host-only, and by its owner. */
static void resync(void)
{
	struct gpushare_session *session, *owner;
	struct gpushare_buffer *x, *z[2];
	struct gpushare_mirror *mirror;
	struct gpushare_info info;

	hear();
	session = part_session();
	owner = part_session();
	x = attached(session, "x", 0);
	OK(gpushare_mirror_open(x, 0, SIZE, BOTH, &mirror));
	OK(gpushare_detach(x));
	part_made(owner, "z", SIZE, GPUSHARE_FLAG_VMM);
	for (int i = 0; i < 2; i++)
		z[i] = attached(session, "z", i);
	attached(owner, "z", 0);
	turn();
	FAILS(E_NOT_FOUND, "z", gpushare_stat(owner, "z", &info)); /* z is shared later */
	CHECK(part_attachers(session, "x") == 1);
	CHECK(part_attachers(owner, "z") == 3);
	OK(gpushare_detach(z[0]));
	CHECK(part_attachers(owner, "z") == 2);
	OK(gpushare_detach(z[1]));
	OK(gpushare_mirror_close(mirror));
	CHECK(part_attachers(session, "x") == 0 && part_attachers(session, "z") == 1);
	turn();
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

/* Count the open descriptors from LOW to HIGH; *out_last is the highest. */
static int held(int *out_last)
{
	int count = 0;

	*out_last = -1;
	for (int fd = LOW; fd < HIGH; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		count++;
		*out_last = fd;
	}
	return count;
}

static struct gpushare_session *warmed(const char *name)
{
	struct gpushare_session *session = part_session();

	OK(gpushare_detach(attached(session, name, 0)));
	return session;
}

/* A buffer holds one descriptor, for maps and for sharing again, however often it is attached. */
static void hold_one(void)
{
	static const uint32_t flags[] = {GPUSHARE_FLAG_VMM, GPUSHARE_FLAG_KEEP};
	struct gpushare_session *owner = part_session(), *session;
	struct gpushare_buffer *buffer;
	int before, last = -1;

	for (int i = 0; i < 4; i++) {
		struct gpushare_buffer *x = part_made(owner, "x", SIZE, flags[i & 1]);

		session = warmed("x");
		before = held(&last);
		buffer = attached(session, "x", i >> 1);
		CHECK(held(&last) == before + 1 && fcntl(last, F_GETFD) == FD_CLOEXEC);
		CHECK(attached(session, "x", i >> 1) == buffer);
		OK(gpushare_unmap(part_map(buffer, BOTH)));
		CHECK(held(&last) == before + 1);
		OK(gpushare_detach(buffer));
		OK(gpushare_detach(buffer));
		CHECK(held(&last) == before);
		attached(session, "x", i >> 1);
		OK(gpushare_close(session));
		CHECK(held(&last) <= before);
		OK(gpushare_free(x));
	}
	OK(gpushare_close(owner));
}

/* A child process and a program that closes unknown descriptors. */
static void lose_it(void)
{
	struct gpushare_session *owner = part_session(), *session;
	struct gpushare_buffer *buffer;
	struct gpushare_map *map;
	int mine = -1, status;
	pid_t child;

	part_made(owner, "x", SIZE, GPUSHARE_FLAG_VMM);
	session = warmed("x");
	buffer = attached(session, "x", 1);
	held(&mine);
	child = fork();
	if (!child) {
		CHECK(fcntl(mine, F_GETFD) < 0);
		OK(gpushare_close(session));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(gpushare_unmap(part_map(buffer, BOTH)));
	CHECK(dup2(STDERR_FILENO, mine) == mine);
	FAILS(E_LIMIT, "the program has closed", gpushare_map(buffer, 0, 1, BOTH, &map));
	OK(gpushare_detach(buffer));
	CHECK(fcntl(mine, F_GETFD) >= 0);
	close(mine);
	OK(gpushare_unmap(part_map(attached(session, "x", 1), BOTH)));
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

STAGE_MAIN(SCENE(own, attach_warm), SCENE(own_two, resync, stage_needs_autostart), SCENE(hold_one),
	   SCENE(lose_it))
