/* SPDX-License-Identifier: MIT */
/* A daemon that is killed at any moment: its clients resume their sessions with the next one,
 * and each answered request holds. */
#include "unit.h"

#include "persist/records.h"
#include "raw_fds.h"

static uint8_t key[GPUSHARE_SESSION_KEY_SIZE];

/* Connect and try to resume the session of `key`; store the new session's key there. */
static int connect_by_key(bool *out_resumed)
{
	request hello = raw_hello_request();
	int fd = raw_greet(&raw_here);

	memcpy(hello.verb.hello.resume, key, sizeof(key));
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	memcpy(key, raw_answer.body.hello.session, sizeof(key));
	*out_resumed = raw_answer.body.hello.resumed;
	return fd;
}

static int come_new(void)
{
	bool resumed;
	int fd;

	memset(key, 0, sizeof(key));
	fd = connect_by_key(&resumed);
	assert_false(resumed);
	return fd;
}

static int come_back(int fd)
{
	bool resumed;

	close(fd);
	fd = connect_by_key(&resumed);
	assert_true(resumed);
	return fd;
}

static void a_key_is_one_processs(void **state)
{
	int old = come_new(), fd, status;
	uint64_t x = raw_shared(old, "x");
	bool resumed;
	pid_t pid;

	pid = raw_fork();
	if (!pid) {
		connect_by_key(&resumed);
		_exit(resumed);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fd = connect_by_key(&resumed); /* the old connection is still open */
	assert_true(resumed);
	assert_int_equal(raw_say(old, raw_withdraw("x", x)), GPUSHARE_E_DENIED);
	close(old);
	raw_await_connections(fd, 1);
	assert_int_equal(raw_say(fd, raw_withdraw("x", x)), GPUSHARE_OK);
	close(fd);
}

/* The daemon is killed while requests arrive: an answered request holds, an unanswered one may. */
static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#define NAMES 20
static uint64_t generations[NAMES]; /* as the daemon answered; 0: not shared */

static const char *name_of(int which)
{
	static char name[16];

	snprintf(name, sizeof(name), "n%d", which);
	return name;
}

/* Send requests until the daemon ends. Return the name of the unanswered request: its state is
 * unknown. */
static int ask_until_it_dies(int fd, uint64_t *seed, int *asked)
{
	for (;;) {
		int which = (int)(random_next(seed) % NAMES);
		request ask = generations[which] ? raw_withdraw(name_of(which), generations[which])
						 : raw_share(name_of(which));

		if (!raw_send(fd, 1, &ask) || !raw_receive(fd, 1, &raw_answer, RAW_TIMEOUT_MS))
			return which;
		assert_int_equal(raw_answer.status, GPUSHARE_OK);
		generations[which] = generations[which] ? 0 : raw_answer.body.share.generation;
		++*asked;
	}
}

static void assert_as_answered(int fd, int unknown)
{
	for (int which = 0; which < NAMES; which++) {
		int status = raw_say(fd, raw_lookup(name_of(which), 0));
		uint64_t generation = status ? 0 : raw_answer.body.lookup.buffer.generation;

		if (which != unknown && generation != generations[which])
			fail_msg("n%d is generation %llu, not %llu", which,
				 (unsigned long long)generation,
				 (unsigned long long)generations[which]);
		generations[which] = generation;
	}
}

static void what_was_answered_is_so(void **state)
{
	uint64_t seed = 0x9e3779b97f4a7c15;
	int fd = come_new(), asked = 0;

	memset(generations, 0, sizeof(generations));
	raw_shared(fd, "always"); /* so that there is a session to resume */
	for (int round = 0; round < 40; round++) {
		int unknown, daemon = raw_here.pid, number = round % 2 ? SIGTERM : SIGKILL;
		pid_t killer = raw_fork();

		if (!killer) {
			usleep((useconds_t)(random_next(&seed) % 8000));
			kill(daemon, number);
			_exit(0);
		}
		random_next(&seed);
		unknown = ask_until_it_dies(fd, &seed, &asked);
		assert_int_equal(waitpid(killer, &(int){0}, 0), killer);
		assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS),
				 number == SIGKILL ? 128 + SIGKILL : 0);
		raw_daemon_start(&raw_here, NULL);
		fd = come_back(fd);
		assert_as_answered(fd, unknown);
	}
	assert_in_range(asked, 100, 10000000);
	close(fd);
}

/* Append a header to the records file of the killed daemon. */
static void append_header(uint32_t version, const char *boot)
{
	gpushare_State begin = {.which_change = gpushare_State_header_tag};
	uint8_t frame[RECORDS_FRAME_MAX];
	int file = open(raw_in_folder(RECORDS_FILE), O_RDWR | O_CLOEXEC);
	struct stat is;
	size_t size;

	begin.change.header.version = version;
	strcpy(begin.change.header.boot, boot);
	size = records_frame(&begin, 1u << 20, frame);
	assert_int_equal(fstat(file, &is), 0);
	assert_int_equal(pwrite(file, frame, size,
				(is.st_size + RECORDS_UNIT - 1) / RECORDS_UNIT * RECORDS_UNIT),
			 size);
	close(file);
}

static void another_boot_or_version_is_not_heeded(void **state)
{
	static const char *const names[] = {"here", "version", "boot"};
	char boot[sizeof(((gpushare_Header *)0)->boot)];
	int fd = come_new();

	records_boot(boot);
	assert_int_equal(strlen(boot), 36);
	for (int which = 0; which < 3; which++) {
		raw_shared(fd, names[which]);
		raw_daemon_end(SIGKILL);
		append_header(RECORDS_VERSION + (which == 1),
			      which == 2 ? "01234567-0123-0123-0123-0123456789ab" : boot);
		raw_daemon_start(&raw_here, NULL);
		close(fd);
		fd = come_new();
		assert_int_equal(raw_say(fd, raw_lookup(names[which], 0)),
				 which ? GPUSHARE_E_NOT_FOUND : GPUSHARE_OK);
	}
	close(fd);
}

UNIT_MAIN(RAW_TEST(a_key_is_one_processs), RAW_TEST(what_was_answered_is_so),
	  RAW_TEST(another_boot_or_version_is_not_heeded))
