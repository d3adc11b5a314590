/* SPDX-License-Identifier: MIT */
/* gpushare_watch() against a registry that the test plays, which may send anything. Also without
 * descriptors, without the directory, and if the program reuses the watch's descriptor. */
#include "unit.h"

#include "raw_peer.h"
#include "stopped.h"

#define REGISTRY 1000 /* Notice.registry of the played registry */
#define FRAMES 32

static struct gpushare_session *session;
static struct gpushare_watch *watch;

static struct gpushare_notice told;

static int next(int timeout_ms)
{
	return gpushare_watch_next(watch, timeout_ms, &told);
}

static void expect(enum gpushare_notice_kind kind, const char *name)
{
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_OK);
	assert_string_equal(gpushare_notice_text(told.kind), gpushare_notice_text(kind));
	assert_string_equal(told.info.name, name);
}

#define EXPECT(kind, name) expect(GPUSHARE_NOTICE_##kind, name)
#define SHARE GPUSHARE_NOTICE_SHARE
#define DETACH GPUSHARE_NOTICE_DETACH

static void expect_lost(uint64_t count)
{
	EXPECT(LOST, "");
	assert_int_equal(told.lost, count);
}

static bool is_readable(int timeout_ms)
{
	struct pollfd one = {.fd = gpushare_watch_fd(watch), .events = POLLIN};

	return poll(&one, 1, timeout_ms) == 1;
}

/* A registry that the test plays. It answers each Subscribe with the next frame. */
static struct played {
	pthread_t thread;
	int listener, count;
	struct frame {
		uint8_t bytes[SP_HEADER_SIZE + SP_ID_SIZE + gpushare_Notice_size + 16];
		size_t size;
		bool last; /* of its connection */
	} frames[FRAMES];
} played;

static void encode(struct frame *frame, reply *answer)
{
	const size_t ahead = SP_HEADER_SIZE + SP_ID_SIZE;

	assert_int_equal(codec_encode_reply(answer, frame->bytes + ahead,
					    sizeof(frame->bytes) - ahead, &frame->size),
			 GPUSHARE_OK);
	sp_header(frame->bytes, 0, frame->size);
	frame->size += ahead;
}

/* Prepare a notice; NULL: without a buffer, as at the beginning of a connection. */
static void put(uint64_t registry, uint32_t kind, uint64_t serial, const char *name)
{
	static reply answer;
	notice *first = &answer.body.subscribe.notices[0];

	memset(&answer, 0, sizeof(answer));
	answer.which_body = gpushare_Reply_subscribe_tag;
	answer.body.subscribe.notices_count = 1;
	*first = (notice){.registry = registry, .kind = kind, .serial = serial};
	first->has_buffer = name;
	if (name)
		strcpy(first->buffer.name, name);
	encode(&played.frames[played.count++], &answer);
}

static void put_bytes(const void *bytes, size_t size)
{
	memcpy(played.frames[played.count].bytes, bytes, size);
	played.frames[played.count++].size = size;
}

/* Greet, answer the hello, and answer each Subscribe from frames[*next] on, until the client hangs
 * up. */
static void serve_one(int fd, int *next)
{
	static reply hello = {.which_body = gpushare_Reply_hello_tag};
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE], body[GPUSHARE_MESSAGE_MAX];
	struct frame frame = {.last = false};
	static request ask;

	sp_greeting(frame.bytes, SP_REP);
	if (!raw_read(fd, body, SP_GREETING_SIZE, RAW_TIMEOUT_MS) ||
	    !raw_write(fd, frame.bytes, SP_GREETING_SIZE))
		return;
	while (raw_read(fd, header, sizeof(header), RAW_TIMEOUT_MS) &&
	       raw_read(fd, body, (size_t)sp_header_body_size(header), RAW_TIMEOUT_MS) &&
	       !codec_decode_request(body, (size_t)sp_header_body_size(header), &ask)) {
		hello.body.hello.protocol = GPUSHARE_PROTOCOL;
		if (ask.which_verb == gpushare_Request_hello_tag)
			encode(&frame, &hello);
		else if (!frame.last && *next < played.count)
			frame = played.frames[(*next)++];
		else
			continue;
		memcpy(frame.bytes + SP_HEADER_SIZE, header + SP_HEADER_SIZE, SP_ID_SIZE);
		raw_write(fd, frame.bytes, frame.size);
	}
}

static void *play(void *unused)
{
	int fd, next = 0;

	while ((fd = accept4(played.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		serve_one(fd, &next);
		close(fd);
	}
	return NULL;
}

/* Open a session with a real registry, then take its place. */
static void play_registry(void)
{
	struct gpushare_open_options options = {.directory = raw_here.directory};
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	raw_set_up(NULL);
	assert_int_equal(gpushare_open(&options, &session), GPUSHARE_OK);
	unlink(raw_here.socket);
	strcpy(at.sun_path, raw_here.socket);
	played.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(played.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(played.listener, 8), 0);
	assert_int_equal(pthread_create(&played.thread, NULL, play, NULL), 0);
	assert_int_equal(gpushare_watch(session, NULL, &watch), GPUSHARE_OK);
}

static void end_playing(void)
{
	gpushare_watch_close(watch);
	gpushare_close(session);
	shutdown(played.listener, SHUT_RDWR);
	pthread_join(played.thread, NULL);
	close(played.listener);
	unlink(raw_here.socket);
	assert_int_equal(raw_tear_down(NULL), 0);
}

/* A gap in the serial numbers is told, but not a kind of notice that only newer versions know. After
 * nonsense the watch connects anew. */
static void gaps_are_told_and_nonsense_is_refused(void **state)
{
	static const uint8_t long_header[SP_HEADER_SIZE + SP_ID_SIZE] = {1, 0, 0, 0, 0, 0, 1, 0, 1};
	static const uint8_t garbage[] = "\1\0\0\0\0\0\0\0\10\x80\0\0\1\xff\xff\xff\xff";
	uint64_t serial = 10;

	put(REGISTRY, 0, serial++, NULL);
	put(REGISTRY, SHARE, serial++, "a");
	put(REGISTRY, SHARE, serial += 9, "b");
	put(REGISTRY, 4000, ++serial, "newer");
	put(REGISTRY, SHARE, ++serial, "c");
	for (int i = 0; i < 5; i++) {
		if (i == 0)
			put_bytes(long_header, sizeof(long_header));
		else if (i == 1)
			put_bytes(garbage, sizeof(garbage) - 1);
		else if (i == 2)
			put(REGISTRY, SHARE, serial + 1, NULL);
		else if (i == 3)
			put(REGISTRY, SHARE, 3, "older");
		else
			put(0, SHARE, serial + 1, "of no registry");
		played.frames[played.count - 1].last = true;
		put(REGISTRY, 0, ++serial, NULL); /* one more than before */
	}
	put(REGISTRY, SHARE, ++serial, "d");
	play_registry();
	EXPECT(SHARE, "a");
	expect_lost(9);
	EXPECT(SHARE, "b");
	EXPECT(SHARE, "c");
	for (int i = 0; i < 5; i++) {
		assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_PROTOCOL);
		assert_non_null(strstr(gpushare_explain(), "registry.sock"));
		expect_lost(1);
	}
	EXPECT(SHARE, "d");
	end_playing();
}

/* The registry sends several notices in one answer. */
static void poll_knows_of_those_that_came_together(void **state)
{
	const int own = raw_connect(&raw_here);
	char name[16];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		assert_int_equal(raw_say(own, raw_share(name)), GPUSHARE_OK);
	}
	for (int i = 0; i < 40; i++) {
		while (next(0) == GPUSHARE_E_TIMED_OUT)
			assert_true(is_readable(RAW_TIMEOUT_MS));
		snprintf(name, sizeof(name), "w%d", i);
		assert_string_equal(told.info.name, name);
	}
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
	close(own);
}

/* Watch a real registry. */
static int serve(void **state)
{
	struct gpushare_open_options options = {.timeout_ms = RAW_TIMEOUT_MS};

	session = NULL;
	watch = NULL;
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	if (raw_set_up(state))
		return -1;
	options.directory = raw_here.directory;
	return gpushare_open(&options, &session) || gpushare_watch(session, NULL, &watch);
}

static int end_serving(void **state)
{
	gpushare_watch_close(watch);
	gpushare_close(session);
	return raw_peers_tear_down(state);
}

/* Set the limit so that `descriptors` more can be opened. */
static void set_room(int descriptors)
{
	int fd = open("/dev/null", O_RDONLY);
	struct rlimit limit = {.rlim_cur = (rlim_t)(fd + descriptors), .rlim_max = 1024};

	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void it_goes_on_when_there_is_room_again(void **state)
{
	struct rlimit limit = {1024, 1024};
	int taken;

	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	assert_int_equal(next(50), GPUSHARE_E_TIMED_OUT);
	raw_daemon_start(&raw_here, NULL);
	taken = dup(0); /* takes the number that the watch's socket had */
	set_room(0);
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_LIMIT);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close(taken);
	EXPECT(RESTART, "");
}

static void a_directory_that_is_open_to_others_is_refused(void **state)
{
	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	assert_int_equal(next(50), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(chmod(raw_here.directory, 0777), 0);
	assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_DENIED);
	assert_non_null(strstr(gpushare_explain(), "open to others"));
	assert_int_equal(chmod(raw_here.directory, 0700), 0);
	raw_daemon_start(&raw_here, NULL);
	EXPECT(RESTART, "");
}

/* The program closes the watch's socket, the last descriptor that the watch opened, and takes
 * its number. The watch connects anew and does not touch what has that number now. */
static void a_program_that_takes_the_socket_keeps_its_own(void **state)
{
	int fd = gpushare_watch_fd(watch) + 2, pair[2];
	struct stat is;
	char byte;

	assert_int_equal(fstat(fd, &is), 0);
	assert_true(S_ISSOCK(is.st_mode));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(dup2(pair[0], fd), fd);
	assert_int_equal(write(pair[1], "mine", 4), 4);
	assert_int_equal(next(200), GPUSHARE_E_TIMED_OUT);
	raw_say(raw_connect(&raw_here), raw_share("w"));
	EXPECT(SHARE, "w");
	gpushare_watch_close(watch);
	watch = NULL;
	assert_int_equal(read(fd, &byte, 1), 1);
	assert_int_equal(byte, 'm');
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

/* If the registry is stopped, no call waits longer than its limit. */
static void a_registry_that_has_stopped(void **state)
{
	const struct gpushare_open_options options = {.directory = raw_here.directory,
						      .timeout_ms = raw_limit_ms(1000)};
	struct gpushare_session *hasty;
	struct gpushare_watch *another;
	long long began_ms;

	assert_int_equal(gpushare_open(&options, &hasty), GPUSHARE_OK);
	assert_true(stopped(raw_here.pid));
	began_ms = raw_now_ms();
	assert_int_equal(next(100), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - began_ms, 90, 300 + raw_slack_ms());
	assert_int_equal(gpushare_watch(hasty, NULL, &another), GPUSHARE_E_TIMED_OUT);
	kill(raw_here.pid, SIGCONT);
	gpushare_close(hasty);
	raw_say(raw_connect(&raw_here), raw_share("w"));
	EXPECT(SHARE, "w");
}

static void a_childs_end_is_not_the_parents(void **state)
{
	int status;
	pid_t pid = raw_fork();

	if (!pid)
		exit(next(0) != GPUSHARE_E_FORKED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	raw_say(raw_connect(&raw_here), raw_share("w"));
	EXPECT(SHARE, "w");
	/* A child that lives on does not keep the connection open, as the parent shuts it down. */
	pid = raw_fork();
	if (!pid)
		for (;;)
			pause();
	kill(raw_here.pid, SIGTERM);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	raw_daemon_start(&raw_here, NULL);
	EXPECT(RESTART, "");
	assert_int_equal(next(100), GPUSHARE_E_TIMED_OUT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A resync sends notices where it changes a buffer's attachments or withdraws it. */
static void a_resync_tells_what_it_changes(void **state)
{
	int owner = raw_peer(0, 0), other = raw_peer(0, 0);
	uint64_t generation = raw_shared(owner, "w");
	request resync = {0};

	EXPECT(SHARE, "w");
	raw_tell(&resync, "w", generation, 2);
	assert_int_equal(raw_say(other, resync), GPUSHARE_OK);
	EXPECT(ATTACH, "w");
	assert_int_equal(told.pid, raw_peer_pid(other));
	assert_int_equal(told.info.attachers, 2);
	assert_int_equal(raw_say(other, resync), GPUSHARE_OK); /* no change, no notice */
	resync.verb.resync.attached[0].count = 1;
	assert_int_equal(raw_say(other, resync), GPUSHARE_OK);
	EXPECT(DETACH, "w");
	resync = (request){.which_verb = gpushare_Request_resync_tag};
	resync.verb.resync.last = true;
	assert_int_equal(raw_say(owner, resync), GPUSHARE_OK);
	EXPECT(WITHDRAW, "w"); /* left out of the resync */
	assert_int_equal(told.serial, 4);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, serve, end_serving)

UNIT_MAIN(UNIT(gaps_are_told_and_nonsense_is_refused),
	  SERVED(poll_knows_of_those_that_came_together),
	  SERVED(it_goes_on_when_there_is_room_again),
	  SERVED(a_directory_that_is_open_to_others_is_refused),
	  SERVED(a_program_that_takes_the_socket_keeps_its_own),
	  SERVED(a_registry_that_has_stopped), SERVED(a_childs_end_is_not_the_parents),
	  SERVED(a_resync_tells_what_it_changes))
