/* SPDX-License-Identifier: MIT */
/* The API against a registry that the test plays. Registries end during a request or before a
 * descriptor arrives, and a later one answers within the deadline. Two threads commit one
 * buffer. Events meet invalid handles, wrong answers and a restarted registry. */
#include "unit.h"

#include "api/api_session.h"
#include "order_page.h"
#include "raw.h"
#include "scripted.h"
#include "stage.h"

#define MIB ((size_t)1 << 20)
#define ENDINGS (CLIENT_TRIES + 1) /* more tries than one registry process gets */
#define TIMEOUT_MS 5000
#define SHORT_MS 120

/* Pid that getsockopt() reports for the registry; each connection gets the next one. 0: the real
 * pid. */
static _Atomic int process;

int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	int result = (int)syscall(SYS_getsockopt, fd, level, name, value, size);

	if (!result && level == SOL_SOCKET && name == SO_PEERCRED && process)
		((struct ucred *)value)->pid = process++;
	return result;
}

/* Open a session with a played registry; `first` is the initial value of `process`. */
static struct gpushare_session *played(unsigned int timeout_ms, int first)
{
	const struct gpushare_open_options options = {.timeout_ms = timeout_ms};
	struct gpushare_session *session = NULL;

	scripted = (struct scripted){.generation = 100};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	process = first;
	OK(gpushare_open(&options, &session));
	return session;
}

static struct gpushare_session *act(unsigned int timeout_ms)
{
	struct gpushare_session *session = played(timeout_ms, 1000);

	scripted.gives_latest = true;
	return session;
}

static int make(struct gpushare_session *session, const char *name, uint32_t flags, int adopt,
		struct gpushare_buffer **out_buffer)
{
	const struct gpushare_alloc_options options = {
	    .flags = GPUSHARE_FLAG_KEEP | flags, .device = -1, .adopt = adopt};

	return gpushare_alloc_with(session, name, 2 * MIB, &options, out_buffer);
}

/* The memory that each attach gets from now on. */
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

/* A session that attaches another process's buffer. */
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

/* The first attach is told to ask at fds.sock; later ones ask there directly. */
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

/* One registry process that closes every connection refuses this client. */
static void attach_to_the_same(void)
{
	struct gpushare_session *session = act_attacher(TIMEOUT_MS);
	struct gpushare_buffer *buffer = NULL;

	process = 0;
	scripted.lose_fds = ENDINGS;
	CHECK(gpushare_attach(session, "w", NULL, &buffer) < 0 && !buffer);
	scripted_lock(); /* no answer orders this access, so lock */
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

static struct gpushare_event *const UNTOUCHED = (struct gpushare_event *)(uintptr_t)16;

static struct gpushare_event *create(struct gpushare_session *session, const char *name)
{
	struct gpushare_event *event = NULL;

	OK(gpushare_event_create(session, name, -1, 0, &event));
	return event;
}

/* Share a handle that CUDA never made and an address that is no event of this process. */
static void lie(struct gpushare_session *session, const char *name, uint64_t address)
{
	request ask = {.which_verb = gpushare_Request_share_tag};
	record *what = &ask.verb.share.buffer;
	gpushare_ShareReply answer;

	ask.verb.share.has_buffer = true;
	strcpy(what->name, name);
	what->backing = GPUSHARE_BACKING_EVENT;
	what->address = address;
	memset(ask.verb.share.handle, 0x5a, sizeof(ask.verb.share.handle));
	CHECK(part_driver()->cuDeviceGetUuid_v2((cu_uuid *)what->device_uuid, 0) == CU_OK);
	OK(session_ask(session, &ask, gpushare_Reply_share_tag, &answer, sizeof(answer)));
}

static void liar(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED;

	lie(session, "lie", 0xdeadbeef);
	FAILS(E_NOT_SUPPORTED, "another copy", gpushare_event_open(session, "lie", NULL, &event));
	say();
	hear();
	CHECK(event == UNTOUCHED);
	OK(gpushare_close(session));
}

static void believer(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED;

	hear();
	FAILS(E_OWNER_GONE, "lie", gpushare_event_open(session, "lie", NULL, &event));
	CHECK(event == UNTOUCHED);
	OK(gpushare_close(session));
	say();
}

/* The registry gives an event for a buffer, or a buffer for an event. */
static void strange_registry(void)
{
	struct gpushare_session *session = played(raw_limit_ms(600), 0);
	struct gpushare_event *event = UNTOUCHED;
	struct gpushare_buffer *buffer;

	scripted.gives_latest = true;
	OK(gpushare_alloc(session, "b", -1, 1, &buffer));
	FAILS(E_PROTOCOL, "'b'", gpushare_event_open(session, "b", NULL, &event));
	CHECK(event == UNTOUCHED && scripted.asked[gpushare_Request_detach_tag] == 1);
	create(session, "e");
	FAILS(E_PROTOCOL, "'e'", gpushare_attach(session, "e", NULL, &buffer));
	CHECK(scripted.asked[gpushare_Request_detach_tag] == 2);
	OK(gpushare_close(session));
}

/* A restarted registry asks for the event that it lost. */
static void wanting_registry(void)
{
	static gpushare_Share first;
	struct gpushare_session *session = played(raw_limit_ms(600), 0);
	struct gpushare_event *event = create(session, "e");
	struct gpushare_info info;

	first = scripted.shares[0];
	CHECK(first.buffer.backing == GPUSHARE_BACKING_EVENT && !first.buffer.size);
	CHECK(first.buffer.address == (uintptr_t)gpushare_event_handle(event));
	scripted_end();
	scripted.shares_count = 0;
	scripted.wants[0] = 101;
	scripted.wants_count = 1;
	scripted_start();
	FAILS(E_NOT_FOUND, "", gpushare_stat(session, "nothing", &info));
	CHECK(scripted.resyncings == 1 && scripted.shares_count == 1);
	CHECK(scripted.shares[0].again == 101 && !scripted.shares[0].orphan);
	CHECK(!memcmp(&scripted.shares[0].buffer, &first.buffer, sizeof(first.buffer)));
	CHECK(!memcmp(scripted.shares[0].handle, first.handle, sizeof(first.handle)));
	/* without a registry an existing event still works */
	scripted_end();
	OK(gpushare_event_record(event, NULL));
	OK(gpushare_event_wait_host(event, 1000));
	OK(gpushare_event_wait(event, NULL));
	FAILS(E_NO_REGISTRY, "", gpushare_event_create(session, "f", -1, 0, &event));
	OK(gpushare_event_close(event));
	OK(gpushare_close(session));
}

#define COMMIT_MS 500

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;

static void begin(void)
{
	const struct gpushare_alloc_options staged = {
	    .flags = GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_STAGED, .device = -1};

	session = played(COMMIT_MS, 0);
	OK(gpushare_alloc_with(session, "w", (size_t)2 << 20, &staged, &buffer));
}

static unsigned int commits(void)
{
	unsigned int count;

	scripted_lock();
	count = scripted.asked[gpushare_Request_commit_tag];
	scripted_unlock();
	return count;
}

static void *commit_too(void *out_status)
{
	*(int *)out_status = gpushare_commit(buffer);
	return NULL;
}

static pthread_t begin_other(int *out_status)
{
	pthread_t other;

	CHECK(!pthread_create(&other, NULL, commit_too, out_status));
	return other;
}

static void is_staged(bool staged)
{
	struct gpushare_info info;

	OK(gpushare_buffer_info(buffer, &info));
	CHECK(!!(info.flags & GPUSHARE_FLAG_STAGED) == staged);
}

static void unanswered(void)
{
	long long until_ms = raw_now_ms() + RAW_TIMEOUT_MS;
	pthread_t other;
	int status;

	begin();
	scripted.mute_at = gpushare_Request_commit_tag;
	other = begin_other(&status);
	while (!commits() && raw_now_ms() < until_ms)
		usleep(1000);
	CHECK(gpushare_commit(buffer) == GPUSHARE_E_TIMED_OUT);
	CHECK(!pthread_join(other, NULL) && status == GPUSHARE_E_TIMED_OUT);
	is_staged(true);
	scripted.mute_at = 0;
	OK(gpushare_commit(buffer));
	is_staged(false);
	OK(gpushare_close(session));
}

/* Two threads commit the buffer with one request. */
static void answered_late(void)
{
	long long began_ms;
	pthread_t other;
	int status;

	begin();
	scripted.nap_ms = COMMIT_MS / 2;
	began_ms = raw_now_ms();
	other = begin_other(&status);
	usleep(50000);
	OK(gpushare_commit(buffer));
	CHECK(raw_now_ms() - began_ms >= COMMIT_MS / 2); /* not before the answer */
	CHECK(!pthread_join(other, NULL) && !status && commits() == 1);
	is_staged(false);
	scripted.nap_ms = 0;
	OK(gpushare_close(session));
}

STAGE_MAIN_SCRIPTED(SCENE(share), SCENE(adopt), SCENE(attach), SCENE(attach_again), SCENE(publish),
		    SCENE(attach_to_the_same), SCENE(attach_in_time), SCENE(commit),
		    SCENE(liar, believer), SCENE(strange_registry), SCENE(wanting_registry),
		    SCENE(unanswered), SCENE(answered_late))
