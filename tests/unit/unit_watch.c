/* SPDX-License-Identifier: MIT */
/* gpushare_watch() against a registry that the test plays, which may send anything. Also without
 * descriptors, without the directory, and if the program reuses the watch's descriptor. */
#include "unit.h"

#include <endian.h>

#include "descriptors.h"
#include "protocol.h"
#include "raw.h"
#include "scripted.h"
#include "stopped.h"

#define PUBLISHER_CALLS 8
#define PUBLISHER_FRAMES 128
#define PUBLISHER_FRAME_MAX (SP_HEADER_SIZE + SP_ID_SIZE + gpushare_Notice_size + 16)

struct publisher_frame {
	uint8_t bytes[PUBLISHER_FRAME_MAX];
	size_t size;
};

/* A thread that takes the place of a scripted registry whose client is connected. It greets,
 * answers a hello, and then answers each Subscribe with the next frame that the test has
 * prepared. Each connection has frames of its own; all later ones have the last one's. */
static struct publisher {
	pthread_t thread;
	pthread_mutex_t lock;
	int listener, stop[2];
	uint8_t greeting[PUBLISHER_CALLS][SP_GREETING_SIZE];
	struct publisher_frame frames[PUBLISHER_CALLS][PUBLISHER_FRAMES];
	int count[PUBLISHER_CALLS];
	bool ends[PUBLISHER_CALLS]; /* the connection ends after its frames */
	bool is_mute;		    /* says nothing after its greeting */
	int calls;
	int call, next; /* the connection whose frames are sent, and the next frame */
	int line;	/* the latest connection's socket */
	bool is_open;	/* the greetings were exchanged */
	uint32_t asked; /* the id of the unanswered Subscribe; 0: none */
	int requests;	/* over all connections */
} publisher = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void publisher_put_greeting(int call)
{
	sp_greeting(publisher.greeting[call], SP_REP);
}

static notice publisher_notice(uint64_t registry, uint32_t kind, uint64_t serial, const char *name)
{
	notice told = {.registry = registry, .kind = kind, .serial = serial, .unix_ns = 5};

	if (!name)
		return told;
	told.has_buffer = true;
	told.pid = 4711;
	strcpy(told.buffer.name, name);
	told.buffer.size = serial;
	return told;
}

static void publisher_encode(struct publisher_frame *frame, reply *answer)
{
	assert_int_equal(codec_encode_reply(answer, frame->bytes + SP_HEADER_SIZE + SP_ID_SIZE,
					    PUBLISHER_FRAME_MAX - SP_HEADER_SIZE - SP_ID_SIZE,
					    &frame->size),
			 GPUSHARE_OK);
	sp_header(frame->bytes, 0, frame->size);
	frame->size += SP_HEADER_SIZE + SP_ID_SIZE;
}

/* Encode a notice; its id is set when it is sent. */
static struct publisher_frame publisher_frame(uint64_t registry, uint32_t kind, uint64_t serial,
					      const char *name)
{
	static reply answer;
	struct publisher_frame frame;

	memset(&answer, 0, sizeof(answer));
	answer.which_body = gpushare_Reply_subscribe_tag;
	answer.body.subscribe.notices_count = 1;
	answer.body.subscribe.notices[0] = publisher_notice(registry, kind, serial, name);
	publisher_encode(&frame, &answer);
	return frame;
}

static struct publisher_frame *publisher_add(int call)
{
	assert_in_range(publisher.count[call], 0, PUBLISHER_FRAMES - 1);
	return &publisher.frames[call][publisher.count[call]++];
}

static void publisher_put(int call, uint64_t registry, uint32_t kind, uint64_t serial,
			  const char *name)
{
	*publisher_add(call) = publisher_frame(registry, kind, serial, name);
}

static void publisher_put_bytes(int call, const void *bytes, size_t size)
{
	struct publisher_frame *frame = publisher_add(call);

	memcpy(frame->bytes, bytes, size);
	frame->size = size;
}

/* Prepare the usual beginning of a connection. */
static void publisher_put_welcome(int call, uint64_t registry, uint64_t serial)
{
	publisher_put_greeting(call);
	publisher_put(call, registry, 0, serial, NULL);
}

static void publisher_set_id(struct publisher_frame *frame, uint32_t id)
{
	const uint32_t bytes = htobe32(id);

	memcpy(frame->bytes + SP_HEADER_SIZE, &bytes, sizeof(bytes));
}

/* Called with the lock held: if a Subscribe is unanswered, send the next frame. */
static void publisher_answer(void)
{
	struct publisher_frame *frame = &publisher.frames[publisher.call][publisher.next];

	if (!publisher.asked || publisher.next == publisher.count[publisher.call])
		return;
	publisher_set_id(frame, publisher.asked);
	publisher.asked = 0;
	publisher.next++;
	raw_write(publisher.line, frame->bytes, frame->size);
	if (publisher.next == publisher.count[publisher.call] && publisher.ends[publisher.call])
		shutdown(publisher.line, SHUT_RDWR);
}

/* Send a notice over the latest connection, as soon as that has asked. */
static void publisher_say(uint64_t registry, uint32_t kind, uint64_t serial, const char *name)
{
	pthread_mutex_lock(&publisher.lock);
	publisher_put(publisher.call, registry, kind, serial, name);
	publisher_answer();
	pthread_mutex_unlock(&publisher.lock);
}

/* Wait for an unanswered Subscribe and return its id. */
static uint32_t publisher_await_asked(void)
{
	uint32_t asked = 0;

	while (!asked) {
		pthread_mutex_lock(&publisher.lock);
		asked = publisher.asked;
		pthread_mutex_unlock(&publisher.lock);
		raw_sleep_ms(1);
	}
	return asked;
}

static void publisher_hang_up(void)
{
	pthread_mutex_lock(&publisher.lock);
	shutdown(publisher.line, SHUT_RDWR);
	pthread_mutex_unlock(&publisher.lock);
}

static void publisher_accept(void)
{
	if (publisher.line >= 0) {
		close(publisher.line);
		publisher.call += publisher.call < publisher.calls - 1;
	}
	publisher.line = accept4(publisher.listener, NULL, NULL, SOCK_CLOEXEC);
	publisher.is_open = false;
	publisher.asked = 0;
	publisher.next = 0;
}

/* Handle one message. Return false if the other side has hung up. */
static bool publisher_take(void)
{
	static reply hello = {.which_body = gpushare_Reply_hello_tag};
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE], body[GPUSHARE_MESSAGE_MAX];
	static request ask;
	struct publisher_frame frame;
	long size;

	if (!publisher.is_open) {
		publisher.is_open = true;
		return raw_read(publisher.line, body, SP_GREETING_SIZE, RAW_TIMEOUT_MS) &&
		       sp_greeting_is(body, SP_REQ) &&
		       raw_write(publisher.line, publisher.greeting[publisher.call],
				 SP_GREETING_SIZE);
	}
	if (!raw_read(publisher.line, header, sizeof(header), RAW_TIMEOUT_MS))
		return false;
	size = sp_header_body_size(header);
	if (size < 0 || !raw_read(publisher.line, body, (size_t)size, RAW_TIMEOUT_MS) ||
	    codec_decode_request(body, (size_t)size, &ask))
		abort();
	publisher.requests++;
	if (publisher.is_mute)
		return true;
	if (ask.which_verb == gpushare_Request_hello_tag) {
		hello.body.hello.protocol = GPUSHARE_PROTOCOL;
		publisher_encode(&frame, &hello);
		publisher_set_id(&frame, sp_id(header + SP_HEADER_SIZE));
		return raw_write(publisher.line, frame.bytes, frame.size);
	}
	publisher.asked = sp_id(header + SP_HEADER_SIZE);
	publisher_answer();
	return true;
}

static void *publish(void *unused)
{
	bool hears = false;

	for (;;) {
		struct pollfd events[] = {
		    {.fd = publisher.listener, .events = POLLIN},
		    {.fd = publisher.stop[0], .events = POLLIN},
		    {.fd = hears ? publisher.line : -1, .events = POLLIN},
		};

		if (poll(events, 3, -1) < 0 || events[1].revents)
			return NULL;
		pthread_mutex_lock(&publisher.lock);
		if (events[0].revents)
			publisher_accept();
		if (events[0].revents || events[2].revents)
			hears = events[0].revents || publisher_take();
		pthread_mutex_unlock(&publisher.lock);
	}
}

/* Listen, with frames prepared for `calls` connections. */
static void publisher_start(int calls)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	publisher.calls = calls;
	directory_socket(scripted.directory, at.sun_path);
	unlink(at.sun_path); /* existing connections stay */
	publisher.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(publisher.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(publisher.listener, 8), 0);
	assert_int_equal(pthread_create(&publisher.thread, NULL, publish, NULL), 0);
}

static void publisher_end(void)
{
	if (publisher.listener < 0)
		return;
	assert_int_equal(write(publisher.stop[1], "x", 1), 1);
	pthread_join(publisher.thread, NULL);
	close(publisher.listener);
	if (publisher.line >= 0)
		close(publisher.line);
	publisher.listener = -1;
	publisher.line = -1;
}

static int publisher_open(void)
{
	memset(&publisher, 0, sizeof(publisher));
	pthread_mutex_init(&publisher.lock, NULL);
	publisher.listener = publisher.line = -1;
	return pipe(publisher.stop);
}

static void publisher_close(void)
{
	publisher_end();
	close(publisher.stop[0]);
	close(publisher.stop[1]);
}

#define REGISTRY 1000 /* Notice.registry of the first registry */

static struct gpushare_session *session;
static struct gpushare_watch *watch;

static int set_up(void **state)
{
	watch = NULL;
	session = NULL;
	return publisher_open() || scripted_set_up(state);
}

static int tear_down(void **state)
{
	gpushare_watch_close(watch);
	gpushare_close(session);
	publisher_close();
	return scripted_tear_down(state);
}

static void open_session(unsigned int timeout_ms)
{
	struct gpushare_open_options options = {.timeout_ms = timeout_ms};

	scripted_start();
	assert_int_equal(gpushare_open(&options, &session), GPUSHARE_OK);
}

static int open_watch(const char *glob)
{
	return gpushare_watch(session, glob, &watch);
}

static void begin(const char *glob, int calls)
{
	open_session(RAW_TIMEOUT_MS);
	publisher_start(calls);
	assert_int_equal(open_watch(glob), GPUSHARE_OK);
}

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

static void notices_come_in_order(void **state)
{
	char name[16];

	publisher_put_welcome(0, REGISTRY, 7);
	begin(NULL, 1);
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
	for (uint64_t i = 8; i < 108; i++) {
		snprintf(name, sizeof(name), "w%d", (int)i);
		publisher_say(REGISTRY, SHARE, i, name);
	}
	for (uint64_t i = 8; i < 108; i++) {
		snprintf(name, sizeof(name), "w%d", (int)i);
		EXPECT(SHARE, name);
		assert_true(told.serial == i && told.info.size == i && told.pid == 4711);
		assert_true(!told.lost && told.unix_ns == 5);
	}
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

static void only_names_that_match(void **state)
{
	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put(0, REGISTRY, SHARE, 1, "kv/1");
	publisher_put(0, REGISTRY, SHARE, 2, "w1");
	publisher_put(0, REGISTRY, DETACH, 3, "kv/1/2");
	begin("kv/*", 1);
	EXPECT(SHARE, "kv/1");
	EXPECT(DETACH, "kv/1/2");
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

/* A gap counts lost notices of other names too, as nobody knows their names. */
static void a_gap_is_told(void **state)
{
	publisher_put_welcome(0, REGISTRY, 10);
	publisher_put(0, REGISTRY, SHARE, 11, "w");
	publisher_put(0, REGISTRY, SHARE, 21, "w");
	publisher_put(0, REGISTRY, SHARE, 24, "other");
	publisher_put(0, REGISTRY, 0, 26, NULL); /* another watcher's greeting */
	publisher_put(0, REGISTRY, SHARE, 27, "w");
	begin("w", 1);
	EXPECT(SHARE, "w");
	expect_lost(9);
	EXPECT(SHARE, "w");
	assert_int_equal(told.serial, 21);
	expect_lost(2);
	expect_lost(2);
	EXPECT(SHARE, "w");
	assert_int_equal(told.serial, 27);
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

static void a_connection_that_ends_is_made_again(void **state)
{
	publisher_put_welcome(0, REGISTRY, 10);
	publisher_put(0, REGISTRY, SHARE, 11, "a");
	publisher.ends[0] = true;
	publisher_put_welcome(1, REGISTRY, 14); /* the same registry */
	publisher_put(1, REGISTRY, SHARE, 15, "b");
	publisher.ends[1] = true;
	publisher_put_welcome(2, REGISTRY + 1, 3); /* another registry */
	publisher_put(2, REGISTRY + 1, SHARE, 4, "c");
	begin(NULL, 3);
	EXPECT(SHARE, "a");
	expect_lost(3);
	EXPECT(SHARE, "b");
	EXPECT(RESTART, "");
	assert_int_equal(told.lost, 0);
	EXPECT(SHARE, "c");
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
}

/* Each is sent in the place of a valid second answer. The watch then connects anew. */
static void nonsense_is_refused(void **state)
{
	static const uint8_t long_header[SP_HEADER_SIZE + SP_ID_SIZE] = {1, 0, 0, 0, 0, 0, 1, 0, 1};
	static const uint8_t garbage[] = "\1\0\0\0\0\0\0\0\10\x80\0\0\1\xff\xff\xff\xff";

	for (int i = 0; i < 6; i++)
		publisher_put_welcome(i, REGISTRY, 10 + (uint64_t)i);
	publisher_put_bytes(0, long_header, sizeof(long_header));
	publisher_put_bytes(1, garbage, sizeof(garbage) - 1);
	publisher_put(2, REGISTRY, SHARE, 13, NULL);
	publisher_put(3, REGISTRY, SHARE, 3, "w"); /* an older serial */
	publisher_put(4, 0, SHARE, 15, "w");	   /* of no registry */
	publisher_put(5, REGISTRY, SHARE, 16, "w");
	begin(NULL, 6);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(next(RAW_TIMEOUT_MS), GPUSHARE_E_PROTOCOL);
		assert_non_null(strstr(gpushare_explain(), "registry.sock"));
		expect_lost(1); /* as the next connection begins one serial later */
	}
	EXPECT(SHARE, "w");
}

static void who_does_not_greet_as_a_registry_is_refused(void **state)
{
	static const char *const greetings[] = {"HTTP/1.1 400", "\0SP\0\0\x20\0\0",
						"\0SP\0\0\x31\0\1"};

	for (int i = 0; i < 3; i++)
		memcpy(publisher.greeting[i], greetings[i], SP_GREETING_SIZE);
	open_session(RAW_TIMEOUT_MS);
	publisher_start(3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_watch(NULL), GPUSHARE_E_PROTOCOL);
	assert_null(watch);
}

static void who_is_silent_is_waited_for(void **state)
{
	publisher_put_welcome(0, REGISTRY, 0);
	begin(NULL, 1);
	assert_int_equal(next(600), GPUSHARE_E_TIMED_OUT);
	publisher_await_asked();
	assert_int_equal(publisher.requests, 3); /* hello, Subscribe, and the next Subscribe */
}

static void the_deadline_holds(void **state)
{
	long long began_ms = raw_now_ms();

	publisher_put_greeting(0);
	publisher.is_mute = true;
	open_session(400);
	publisher_start(1);
	began_ms = raw_now_ms();
	assert_int_equal(open_watch(NULL), GPUSHARE_E_TIMED_OUT);
	assert_in_range(raw_now_ms() - began_ms, 350, 700 + raw_slack_ms());
	publisher_end();
	began_ms = raw_now_ms();
	assert_int_equal(open_watch(NULL), GPUSHARE_E_NO_REGISTRY);
	assert_in_range(raw_now_ms() - began_ms, 350, 700 + raw_slack_ms());
	assert_non_null(strstr(gpushare_explain(), "older"));
}

/* A notice arrives byte by byte, another one by half: the watch reports none before it is whole. */
static void halves_are_waited_for(void **state)
{
	struct publisher_frame frame = publisher_frame(REGISTRY, SHARE, 1, "w");

	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put_welcome(1, REGISTRY, 1);
	publisher_put(1, REGISTRY, SHARE, 2, "x");
	begin(NULL, 2);
	publisher_set_id(&frame, publisher_await_asked());
	for (size_t i = 0; i < frame.size; i++) {
		assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
		assert_true(raw_write(publisher.line, frame.bytes + i, 1));
	}
	EXPECT(SHARE, "w");
	assert_true(raw_write(publisher.line, frame.bytes, frame.size / 2));
	publisher_hang_up();
	/* The half notice is dropped. */
	EXPECT(SHARE, "x");
}

static bool is_readable(int timeout_ms)
{
	struct pollfd one = {.fd = gpushare_watch_fd(watch), .events = POLLIN};

	return poll(&one, 1, timeout_ms) == 1;
}

/* The descriptor is readable also for notices that the watch has read already. */
static void poll_knows_when_there_is_more(void **state)
{
	int fd;

	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put_welcome(1, REGISTRY, 9);
	publisher_put(1, REGISTRY, SHARE, 10, "w");
	begin(NULL, 2);
	fd = gpushare_watch_fd(watch);
	assert_false(is_readable(0));
	for (uint64_t i = 1; i <= 3; i++)
		publisher_say(REGISTRY, SHARE, i, "w");
	publisher_say(REGISTRY, SHARE, 9, "w");
	for (int i = 0; i < 5; i++) {
		assert_true(is_readable(RAW_TIMEOUT_MS));
		assert_int_equal(next(0), GPUSHARE_OK);
		assert_int_equal(told.kind, i == 3 ? GPUSHARE_NOTICE_LOST : SHARE);
	}
	assert_false(is_readable(50));
	assert_int_equal(next(0), GPUSHARE_E_TIMED_OUT);
	publisher_hang_up(); /* the same over a new connection */
	while (next(0) == GPUSHARE_E_TIMED_OUT)
		assert_true(is_readable(RAW_TIMEOUT_MS));
	assert_int_equal(told.serial, 10);
	assert_int_equal(gpushare_watch_fd(watch), fd);
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

static void a_newer_registrys_kinds_are_no_loss(void **state)
{
	publisher_put_welcome(0, REGISTRY, 0);
	publisher_put(0, REGISTRY, 4000, 1, "w");
	publisher_put(0, REGISTRY, SHARE, 2, "w");
	begin(NULL, 1);
	EXPECT(SHARE, "w");
	assert_int_equal(told.serial, 2);
}

static void arguments_are_checked(void **state)
{
	static char glob[GPUSHARE_NAME_MAX + 2];

	publisher_put_welcome(0, REGISTRY, 0);
	begin(NULL, 1);
	memset(glob, '?', sizeof(glob) - 1);
	assert_int_equal(gpushare_watch(NULL, NULL, &watch), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch(session, NULL, NULL), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch(session, glob, &watch), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch_next(NULL, 0, &told), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch_next(watch, 0, NULL), GPUSHARE_E_INVALID);
	assert_int_equal(gpushare_watch_fd(NULL), -1);
	assert_string_equal(gpushare_notice_text(12345), "unknown");
	gpushare_watch_close(NULL);
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
	return raw_tear_down(state);
}

/* Set the limit so that `descriptors` more can be opened. */
static void set_room(int descriptors)
{
	int fd = open("/dev/null", O_RDONLY);
	struct rlimit limit = {.rlim_cur = (rlim_t)(fd + descriptors), .rlim_max = 1024};

	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void without_room_it_says_so(void **state)
{
	struct rlimit limit, before;
	struct gpushare_watch *another;
	int open_before = descriptors_open();

	getrlimit(RLIMIT_NOFILE, &before);
	for (int room = 0; room < 3; room++) {
		set_room(room);
		assert_int_equal(gpushare_watch(session, NULL, &another), GPUSHARE_E_LIMIT);
		limit = (struct rlimit){before.rlim_max < 1024 ? before.rlim_max : 1024, 1024};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(descriptors_open(), open_before);
	}
	assert_int_equal(gpushare_watch(session, NULL, &another), GPUSHARE_OK);
	gpushare_watch_close(another);
	assert_int_equal(descriptors_open(), open_before);
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

static void a_directory_that_goes_may_come_back(void **state)
{
	char command[256];

	kill(raw_here.pid, SIGKILL);
	raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS);
	snprintf(command, sizeof(command), "rm -r %s", raw_here.directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(next(200), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(mkdir(raw_here.directory, 0700), 0);
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

#define PLAYED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define SERVED(test) cmocka_unit_test_setup_teardown(test, serve, end_serving)

UNIT_MAIN(PLAYED(notices_come_in_order), PLAYED(only_names_that_match), PLAYED(a_gap_is_told),
	  PLAYED(a_connection_that_ends_is_made_again), PLAYED(nonsense_is_refused),
	  PLAYED(who_does_not_greet_as_a_registry_is_refused), PLAYED(who_is_silent_is_waited_for),
	  PLAYED(the_deadline_holds), PLAYED(halves_are_waited_for),
	  PLAYED(poll_knows_when_there_is_more), PLAYED(a_newer_registrys_kinds_are_no_loss),
	  PLAYED(arguments_are_checked), SERVED(poll_knows_of_those_that_came_together),
	  SERVED(without_room_it_says_so), SERVED(it_goes_on_when_there_is_room_again),
	  SERVED(a_directory_that_is_open_to_others_is_refused),
	  SERVED(a_directory_that_goes_may_come_back),
	  SERVED(a_program_that_takes_the_socket_keeps_its_own),
	  SERVED(a_registry_that_has_stopped), SERVED(a_childs_end_is_not_the_parents))
