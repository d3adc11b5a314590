/* SPDX-License-Identifier: MIT */
/* The shim's link: buffers that travel as a descriptor, and a registry that fails during a
 * request. */
#include "unit.h"

#include "raw.h"
#include "preload/shim_link.h"
#include "preload/shim_live.h"

#define TIMEOUT_MS raw_limit_ms(400)

static char why[512];
static _Thread_local unsigned int reading;
static _Thread_local bool read_only;

static int set_up(void **state)
{
	raw_set_up(state);
	raw_set_limit(400);
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	return setenv("GPUSHARE_DIR", raw_here.directory, 1);
}

/* A process has one link, so each test runs in a child. */
static void in_child(int (*part)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(30);
		status = part();
		if (status)
			fprintf(stderr, "line %d: %s\n", status, why);
		_exit(status ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			return __LINE__; \
	} while (0)

static struct memory memory_of(const char *name, uint32_t backing)
{
	return (struct memory){.name = name,
			       .address = 0x7f0000000000,
			       .size = 4096,
			       .base_size = 4096,
			       .backing = backing,
			       .device_uuid = {0xd}};
}

static int share_by_descriptor(void)
{
	struct memory what = memory_of("v", GPUSHARE_BACKING_VMM);
	int fd = memfd_create("unit", MFD_CLOEXEC);
	uint64_t generation = 0;

	CHECK(write(fd, "hello", 5) == 5);
	CHECK(
	    !link_share(&(struct link_share){.what = &what, .group = "", .handle = NULL, .fd = fd},
			&generation, &reading, why, sizeof(why)));
	CHECK(generation && fcntl(fd, F_GETFD) >= 0);
	return 0;
}

/* Listen at fds.sock without answering. The other socket works. */
static void mute_fds_socket(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	directory_fds_socket(raw_here.directory, at.sun_path);
	unlink(at.sun_path);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 8))
		_exit(1);
}

static int fail_on_the_way(void)
{
	struct memory what = memory_of("w", GPUSHARE_BACKING_VMM);
	record got;
	uint8_t handle[GPUSHARE_HANDLE_SIZE];
	int fd = -7, file = memfd_create("unit", MFD_CLOEXEC), own;
	uint64_t generation;
	long long begin;
	bool mine;

	CHECK(!share_by_descriptor());
	mute_fds_socket();
	begin = raw_now_ms();
	CHECK(link_attach("v", 0, &read_only, &got, handle, &fd, &mine, &reading, why,
			  sizeof(why)) == GPUSHARE_E_TIMED_OUT);
	CHECK(raw_now_ms() - begin < TIMEOUT_MS + 300 + raw_slack_ms());
	CHECK(fd == -7 && strstr(why, "in time"));
	/* the attachment isn't counted, although the registry had agreed */
	own = raw_connect(&raw_here);
	CHECK(!raw_say(own, raw_lookup("v", 0)));
	CHECK(raw_answer.body.lookup.buffer.attachers == 0);
	close(own);
	/* for a while the link doesn't ask again */
	begin = raw_now_ms();
	CHECK(
	    link_share(&(struct link_share){.what = &what, .group = "", .handle = NULL, .fd = file},
		       &generation, &reading, why, sizeof(why)) == GPUSHARE_E_NO_REGISTRY);
	CHECK(strstr(why, "a moment ago") && raw_now_ms() - begin < 100);
	/* the next request waits for the late answer first */
	raw_sleep_ms(1100);
	begin = raw_now_ms();
	CHECK(
	    link_share(&(struct link_share){.what = &what, .group = "", .handle = NULL, .fd = file},
		       &generation, &reading, why, sizeof(why)) == GPUSHARE_E_TIMED_OUT);
	CHECK(raw_now_ms() - begin >= TIMEOUT_MS &&
	      raw_now_ms() - begin < TIMEOUT_MS + 300 + raw_slack_ms());
	return 0;
}

static void a_mute_fds_socket(void **state)
{
	in_child(fail_on_the_way);
}

static void *wait_for_nobody(void *unused)
{
	uint8_t handle[GPUSHARE_HANDLE_SIZE];
	static char its_why[512];
	record got;
	bool mine;
	int fd;

	return (void *)(intptr_t)link_attach("nobody", 2500, &read_only, &got, handle, &fd, &mine,
					     &reading, its_why, sizeof(its_why));
}

/* While one thread waits for a name, calls of other threads are served. */
static int share_while_another_waits(void)
{
	uint8_t handle[GPUSHARE_HANDLE_SIZE] = {1};
	char name[] = "a";
	struct memory what = memory_of(name, GPUSHARE_BACKING_IPC);
	uint64_t generation;
	pthread_t thread;
	void *status;

	CHECK(!pthread_create(&thread, NULL, wait_for_nobody, NULL));
	raw_sleep_ms(250);
	for (int i = 0; i < 8; i++) {
		long long begin = raw_now_ms();

		name[0] = (char)('a' + i);
		CHECK(!link_share(
		    &(struct link_share){.what = &what, .group = "", .handle = handle, .fd = -1},
		    &generation, &reading, why, sizeof(why)));
		CHECK(raw_now_ms() - begin < 250);
	}
	pthread_join(thread, &status);
	CHECK((int)(intptr_t)status == GPUSHARE_E_NOT_FOUND);
	return 0;
}

static void a_turn_for_each_thread(void **state)
{
	in_child(share_while_another_waits);
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, set_up, raw_tear_down)

UNIT_MAIN(with_daemon(a_mute_fds_socket), with_daemon(a_turn_for_each_thread))
