/* SPDX-License-Identifier: MIT */
#include "raw.h"

#include "unit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_INSTRUMENTED true
#else
#define IS_INSTRUMENTED false
#endif

struct raw_daemon raw_here;
void (*raw_daemon_begins)(void);
reply raw_answer;
gpushare_HelloReply raw_hellos[RAW_FDS];

long long raw_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

bool raw_is_emulated(void)
{
	const char *emulator = getenv("EMULATOR");

	return emulator && *emulator;
}

int raw_slack_ms(void)
{
	return IS_INSTRUMENTED || raw_is_emulated() ? 1500 : RAW_SLACK_MS;
}

void raw_sleep_ms(int ms)
{
	poll(NULL, 0, ms);
}

pid_t raw_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Call it in the forked child. It does not return. */
static void become_daemon(const char *const arguments[])
{
	const char *build = getenv("BUILD");
	const char *command[16] = {"gpushare-registry"};
	char path[4096];
	int count = 1;

	while (*arguments && count < 15)
		command[count++] = *arguments++;
	setenv("GPUSHARE_AUTOSTART", "0", 1); /* the test starts the next daemon, not a keeper */
	snprintf(path, sizeof(path), "%s/gpushare-registry", build && *build ? build : "build");
	execv(path, (char *const *)command);
	fprintf(stderr, "can't run %s: %m\n", path);
	_exit(127);
}

void raw_daemon_start(struct raw_daemon *daemon, const char *const extra[])
{
	const char *arguments[14] = {"--dir", daemon->directory, "--ready-fd", "90"};
	int ready[2], count = 4;
	char word[8];

	while (extra && *extra)
		arguments[count++] = *extra++;
	snprintf(daemon->socket, sizeof(daemon->socket), "%s/" GPUSHARE_SOCKET, daemon->directory);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	daemon->pid = raw_fork();
	assert_true(daemon->pid >= 0);
	if (!daemon->pid) {
		if (dup2(ready[1], 90) == ready[1])
			fcntl(90, F_SETFD, 0);
		if (raw_daemon_begins)
			raw_daemon_begins();
		become_daemon(arguments);
	}
	close(ready[1]);
	if (!raw_read(ready[0], word, sizeof(word), 4 * RAW_TIMEOUT_MS))
		fail_msg("the daemon does not get ready");
	assert_memory_equal(word, "READY=1\n", 8);
	assert_int_equal(read(ready[0], word, 1),
			 0); /* it has closed its end, and opens nothing more */
	close(ready[0]);
}

int raw_daemon_wait(struct raw_daemon *daemon, int timeout_ms)
{
	long long deadline = raw_now_ms() + timeout_ms;
	int status;

	while (waitpid(daemon->pid, &status, WNOHANG) != daemon->pid) {
		if (raw_now_ms() > deadline)
			return -1;
		raw_sleep_ms(2);
	}
	daemon->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void raw_daemon_end(int signal)
{
	kill(raw_here.pid, signal);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS),
			 signal == SIGKILL ? 128 + SIGKILL : 0);
}

void raw_daemon_again(int signal)
{
	raw_daemon_end(signal);
	raw_daemon_start(&raw_here, NULL);
}

void raw_daemon_lose(void)
{
	raw_daemon_end(SIGKILL);
	unlink(raw_in_folder(GPUSHARE_STATE));
	raw_daemon_start(&raw_here, NULL);
}

int raw_make_folder(void **state)
{
	strcpy(raw_here.directory, "/tmp/gpushare-unit-XXXXXX");
	return mkdtemp(raw_here.directory) ? 0 : -1;
}

char *raw_in_folder(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", raw_here.directory, name);
	return path;
}

int raw_set_up(void **state)
{
	assert_int_equal(raw_make_folder(state), 0);
	raw_daemon_start(&raw_here, NULL);
	return 0;
}

int raw_tear_down(void **state)
{
	char command[128];

	if (raw_here.pid) {
		kill(raw_here.pid, SIGTERM);
		kill(raw_here.pid, SIGCONT); /* a failed test may have stopped the daemon */
		assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
		assert_int_not_equal(access(raw_here.socket, F_OK), 0);
	}
	snprintf(command, sizeof(command), "rm -rf %s", raw_here.directory);
	return system(command);
}

int raw_dial(const struct raw_daemon *daemon)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", daemon->socket);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		fail_msg("can't connect to %s: %s", daemon->socket, strerror(errno));
	return fd;
}

void raw_greet_on(int fd)
{
	uint8_t greeting[SP_GREETING_SIZE];

	sp_greeting(greeting, SP_REQ);
	assert_true(raw_write(fd, greeting, sizeof(greeting)));
	assert_true(raw_read(fd, greeting, sizeof(greeting), RAW_TIMEOUT_MS));
	assert_true(sp_greeting_is(greeting, SP_REP));
}

static void hello(int fd)
{
	request hello = raw_hello_request();
	static reply answer;

	strcpy(hello.verb.hello.client, "unit test");
	assert_int_equal(raw_ask(fd, &hello, &answer), GPUSHARE_OK);
	if (fd < RAW_FDS)
		raw_hellos[fd] = answer.body.hello;
}

void raw_hello(int fd)
{
	raw_greet_on(fd);
	hello(fd);
}

int raw_greet(const struct raw_daemon *daemon)
{
	int fd = raw_dial(daemon);

	raw_greet_on(fd);
	return fd;
}

int raw_connect(const struct raw_daemon *daemon)
{
	int fd = raw_greet(daemon);

	hello(fd);
	return fd;
}

bool raw_write(int fd, const void *from, size_t size)
{
	const char *at = from;

	while (size) {
		ssize_t wrote = send(fd, at, size, MSG_NOSIGNAL);

		if (wrote <= 0)
			return false;
		at += wrote;
		size -= (size_t)wrote;
	}
	return true;
}

bool raw_read(int fd, void *to, size_t size, int timeout_ms)
{
	long long deadline = raw_now_ms() + timeout_ms;
	char *at = to;

	while (size) {
		struct pollfd event = {.fd = fd, .events = POLLIN};
		long long left = deadline - raw_now_ms();
		ssize_t got;

		if (poll(&event, 1, left > 0 ? (int)left : 0) != 1)
			return false;
		got = read(fd, at, size);
		if (got <= 0)
			return false;
		at += got;
		size -= (size_t)got;
	}
	return true;
}

bool raw_is_closed(int fd, int timeout_ms)
{
	long long deadline = raw_now_ms() + timeout_ms;
	char rest[4096];

	for (;;) {
		struct pollfd event = {.fd = fd, .events = POLLIN};
		long long left = deadline - raw_now_ms();

		if (poll(&event, 1, left > 0 ? (int)left : 0) != 1)
			return false;
		if (read(fd, rest, sizeof(rest)) <= 0)
			return true;
	}
}

bool raw_send_bytes(int fd, uint32_t id, const void *body, size_t size)
{
	uint8_t wire[SP_HEADER_SIZE + SP_ID_SIZE + 4096];

	assert_true(size <= 4096);
	sp_header(wire, id, size);
	memcpy(wire + SP_HEADER_SIZE + SP_ID_SIZE, body, size);
	return raw_write(fd, wire, SP_HEADER_SIZE + SP_ID_SIZE + size);
}

bool raw_send(int fd, uint32_t id, const request *ask)
{
	uint8_t body[gpushare_Request_size];
	size_t size;

	assert_int_equal(codec_encode_request(ask, body, sizeof(body), &size), GPUSHARE_OK);
	return raw_send_bytes(fd, id, body, size);
}

bool raw_receive_any(int fd, uint32_t *out_id, reply *answer, int timeout_ms)
{
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE], body[gpushare_Reply_size];
	long size;

	if (!raw_read(fd, header, sizeof(header), timeout_ms))
		return false;
	size = sp_header_body_size(header);
	assert_in_range(size, 0, sizeof(body));
	*out_id = sp_id(header + SP_HEADER_SIZE) & 0x7fffffffu;
	if (!raw_read(fd, body, (size_t)size, RAW_TIMEOUT_MS))
		return false;
	assert_int_equal(codec_decode_reply(body, (size_t)size, answer), GPUSHARE_OK);
	return true;
}

bool raw_receive(int fd, uint32_t id, reply *answer, int timeout_ms)
{
	uint32_t came;

	if (!raw_receive_any(fd, &came, answer, timeout_ms))
		return false;
	assert_int_equal(came, id & 0x7fffffffu);
	return true;
}

int raw_ask(int fd, const request *ask, reply *answer)
{
	static uint32_t last_id;
	uint32_t id = ++last_id;

	if (!raw_send(fd, id, ask) || !raw_receive(fd, id, answer, 4 * RAW_TIMEOUT_MS))
		fail_msg("no answer to a request of kind %d", (int)ask->which_verb);
	return answer->status;
}

int raw_say(int fd, request what)
{
	return raw_ask(fd, &what, &raw_answer);
}

void raw_assert_sentence(const char *part)
{
	if (!strstr(raw_answer.message, part))
		fail_msg("\"%s\" is not in: %s", part, raw_answer.message);
}

void raw_assert_serves(void)
{
	long long begin = raw_now_ms();
	int fd = raw_connect(&raw_here);

	raw_stat(fd);
	close(fd);
	assert_in_range(raw_now_ms() - begin, 0, 1000 + raw_slack_ms());
}

void raw_await_connections(int fd, uint64_t wanted)
{
	long long begin = raw_now_ms();
	uint64_t now;

	while ((now = raw_stat(fd).connections) != wanted) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("%llu connections, not %llu", (unsigned long long)now,
				 (unsigned long long)wanted);
		raw_sleep_ms(10);
	}
}

long long raw_ms_until_gone(int fd, const char *name)
{
	long long begin = raw_now_ms();

	while (raw_say(fd, raw_lookup(name, 0)) == GPUSHARE_OK) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("\"%s\" does not go", name);
	}
	return raw_now_ms() - begin;
}

request raw_hello_request(void)
{
	request ask = {.which_verb = gpushare_Request_hello_tag};

	ask.verb.hello.protocol = GPUSHARE_PROTOCOL;
	return ask;
}

request raw_share(const char *name)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	record *info = &ask.verb.share.buffer;

	ask.verb.share.has_buffer = true;
	strcpy(info->name, name);
	info->size = info->base_size = 4096;
	info->backing = GPUSHARE_BACKING_IPC;
	info->address = 0x7f0000000000;
	memset(info->device_uuid, 0xd, sizeof(info->device_uuid));
	memset(ask.verb.share.handle, RAW_HANDLE_BYTE, sizeof(ask.verb.share.handle));
	return ask;
}

request raw_lookup(const char *name, uint32_t wait_ms)
{
	request ask = {.which_verb = gpushare_Request_lookup_tag};

	strcpy(ask.verb.lookup.name, name);
	ask.verb.lookup.wait_ms = wait_ms;
	return ask;
}

request raw_attach(const char *name)
{
	request ask = {.which_verb = gpushare_Request_attach_tag};

	strcpy(ask.verb.attach.name, name);
	return ask;
}

request raw_withdraw(const char *name, uint64_t generation)
{
	request ask = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(ask.verb.withdraw.name, name);
	ask.verb.withdraw.generation = generation;
	return ask;
}

request raw_free(const char *name, uint64_t generation)
{
	request ask = raw_withdraw(name, generation);

	ask.verb.withdraw.deferred = true;
	return ask;
}

request raw_detach(const char *name, uint64_t generation)
{
	request ask = {.which_verb = gpushare_Request_detach_tag};

	strcpy(ask.verb.detach.name, name);
	ask.verb.detach.generation = generation;
	return ask;
}

request raw_order(const char *name, uint64_t generation, uint32_t roles)
{
	request ask = {.which_verb = gpushare_Request_order_tag};

	strcpy(ask.verb.order.name, name);
	ask.verb.order.generation = generation;
	ask.verb.order.roles = roles;
	return ask;
}

gpushare_StatReply raw_stat(int fd)
{
	request ask = {.which_verb = gpushare_Request_stat_tag};
	static reply answer;

	assert_int_equal(raw_ask(fd, &ask, &answer), GPUSHARE_OK);
	return answer.body.stat;
}

void raw_tell(request *resync, const char *name, uint64_t generation, uint32_t count)
{
	gpushare_Resync *told = &resync->verb.resync;
	gpushare_Hold *hold =
	    count ? &told->attached[told->attached_count++] : &told->shared[told->shared_count++];

	resync->which_verb = gpushare_Request_resync_tag;
	strcpy(hold->name, name);
	hold->generation = generation;
	hold->count = count;
}

uint64_t raw_shared(int fd, const char *name)
{
	assert_int_equal(raw_say(fd, raw_share(name)), GPUSHARE_OK);
	return raw_answer.body.share.generation;
}

void raw_attached(int fd, const char *name)
{
	assert_int_equal(raw_say(fd, raw_attach(name)), GPUSHARE_OK);
}

const record *raw_seen(int fd, const char *name)
{
	assert_int_equal(raw_say(fd, raw_lookup(name, 0)), GPUSHARE_OK);
	return &raw_answer.body.lookup.buffer;
}
