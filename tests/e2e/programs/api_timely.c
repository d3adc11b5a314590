// SPDX-License-Identifier: MIT
/*
 * `api_timely CALL`: four threads make that public call twice while four others call
 * gpushare_stat() in a loop, all in one session. Prints how many milliseconds the slowest call
 * took. `api_timely` prints the calls that it knows. `api_timely forked` makes each call once in a
 * forked child and then in the parent, and prints what they return. `api_timely nothing` makes each
 * with NULL for its session or object, `api_timely results` with NULL for a result, a list or a
 * callback. `api_timely texts` prints the words for all values of each enum and for one other.
 */
#include <gpushare.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "status.h"

#define SIZE 4096
#define CALLERS 4
#define ROUNDS 2
#define ASKERS 4

/* The object that a call needs. prepare() makes it while the registry still answers. */
enum kind {
	NOTHING,
	OWNED,
	STAGED,
	ATTACHED,
	VMM,
	MAP,
	MIRROR,
	TENSOR,
	JOINED,
	EVENT,
	OPENED,
	WATCH,
	SESSION
};

struct thing {
	char name[96], theirs[16];
	struct gpushare_buffer *buffer;
	struct gpushare_map *map;
	struct gpushare_mirror *mirror;
	struct gpushare_event *event;
	struct gpushare_watch *watch;
	struct gpushare_session *session;
	void *tensor;
};

/* The layout of DLManagedTensor in dlpack.h. */
struct tensor {
	char array[48];
	void *context;
	void (*deleter)(struct tensor *self);
};

static struct gpushare_session *session;
static pthread_barrier_t start;
static _Atomic int calling = CALLERS;
static char host[SIZE];
static const struct gpushare_alloc_options plain = {.device = -1};
static const struct gpushare_tag tag = {"key", "value"};
static const struct gpushare_part part = {"part", 0, SIZE, &tag, 1};
static const int64_t shape[] = {SIZE};
static const struct gpushare_dlpack_options whole = {.ndim = 1, .shape = shape};

static int visit(const struct gpushare_info *info, void *user)
{
	return 0;
}

static int visit_holder(const struct gpushare_holder *holder, void *user)
{
	return 0;
}

static int pass(const void *data, size_t size, void *user)
{
	return 0;
}

static int fill(void *data, size_t size, void *user)
{
	memset(data, 1, size);
	return 0;
}

static int attach_pair(struct gpushare_session *from, const char *name)
{
	const char *const names[2] = {name, name};
	struct gpushare_buffer *pair[2];

	return gpushare_attach_many(from, names, 2, NULL, pair);
}

static int delete (struct tensor *tensor)
{
	tensor->deleter(tensor);
	return 0;
}

/* X(name, kind of object, call): all public calls except those that only read a struct */
#define CALLS(X) \
	X(gpushare_open, NOTHING, gpushare_open(NULL, &t->session)) \
	X(gpushare_close, SESSION, gpushare_close(t->session)) \
	X(gpushare_share, OWNED, \
	  gpushare_share(session, t->name, gpushare_pointer(t->buffer), SIZE, &b)) \
	X(gpushare_share_with, OWNED, \
	  gpushare_share_with(session, t->name, gpushare_pointer(t->buffer), SIZE, NULL, &b)) \
	X(gpushare_alloc, NOTHING, gpushare_alloc(session, t->name, -1, SIZE, &b)) \
	X(gpushare_alloc_with, NOTHING, gpushare_alloc_with(session, t->name, SIZE, &plain, &b)) \
	X(gpushare_alloc_array, NOTHING, \
	  gpushare_alloc_array(session, t->name, SIZE, 1, &plain, &b)) \
	X(gpushare_attach, ATTACHED, gpushare_attach(session, t->theirs, NULL, &b)) \
	X(gpushare_attach_many, ATTACHED, attach_pair(session, t->theirs)) \
	X(gpushare_detach, ATTACHED, gpushare_detach(t->buffer)) \
	X(gpushare_free, OWNED, gpushare_free(t->buffer)) \
	X(gpushare_commit, STAGED, gpushare_commit(t->buffer)) \
	X(gpushare_share_parts, VMM, gpushare_share_parts(t->buffer, &part, 1)) \
	X(gpushare_unlink, OWNED, gpushare_unlink(session, "nobody")) \
	X(gpushare_tag, OWNED, gpushare_tag(session, "nobody", &tag, 1)) \
	X(gpushare_tags, OWNED, gpushare_tags(t->buffer, tags, &count)) \
	X(gpushare_holders, OWNED, gpushare_holders(session, "nobody", 0, visit_holder, NULL)) \
	X(gpushare_stat, NOTHING, gpushare_stat(session, "nobody", &info)) \
	X(gpushare_list, NOTHING, gpushare_list(session, NULL, visit, NULL)) \
	X(gpushare_list_deferred, NOTHING, gpushare_list_deferred(session, NULL, visit, NULL)) \
	X(gpushare_list_events, NOTHING, gpushare_list_events(session, NULL, visit, NULL)) \
	X(gpushare_stat_registry, NOTHING, gpushare_stat_registry(session, &registry)) \
	X(gpushare_watch, NOTHING, gpushare_watch(session, NULL, &t->watch)) \
	X(gpushare_watch_next, WATCH, gpushare_watch_next(t->watch, 0, &notice)) \
	X(gpushare_watch_close, WATCH, (gpushare_watch_close(t->watch), 0)) \
	X(gpushare_state, ATTACHED, gpushare_state(t->buffer, &state)) \
	X(gpushare_read, ATTACHED, gpushare_read(t->buffer, 0, SIZE, pass, NULL)) \
	X(gpushare_write, ATTACHED, gpushare_write(t->buffer, 0, SIZE, fill, NULL)) \
	X(gpushare_copy_from, ATTACHED, gpushare_copy_from(t->buffer, 0, bytes, SIZE)) \
	X(gpushare_copy_to, ATTACHED, gpushare_copy_to(t->buffer, 0, host, SIZE)) \
	X(gpushare_map, VMM, gpushare_map(t->buffer, 0, SIZE, GPUSHARE_READ, &t->map)) \
	X(gpushare_map_with, VMM, \
	  gpushare_map_with(t->buffer, 0, SIZE, GPUSHARE_READ, NULL, &t->map)) \
	X(gpushare_map_flush, MAP, gpushare_map_flush(t->map, 0, SIZE)) \
	X(gpushare_map_invalidate, MAP, gpushare_map_invalidate(t->map, 0, SIZE)) \
	X(gpushare_unmap, MAP, gpushare_unmap(t->map)) \
	X(gpushare_mirror_open, ATTACHED, \
	  gpushare_mirror_open(t->buffer, 0, SIZE, GPUSHARE_READ, &t->mirror)) \
	X(gpushare_mirror_sync, MIRROR, gpushare_mirror_sync(t->mirror)) \
	X(gpushare_mirror_close, MIRROR, gpushare_mirror_close(t->mirror)) \
	X(gpushare_mirror_drop, MIRROR, (gpushare_mirror_drop(t->mirror), 0)) \
	X(gpushare_event_create, NOTHING, \
	  gpushare_event_create(session, t->name, -1, 0, &t->event)) \
	X(gpushare_event_create_with, NOTHING, \
	  gpushare_event_create_with(session, t->name, -1, 0, NULL, &t->event)) \
	X(gpushare_event_open, NOTHING, gpushare_event_open(session, "event", NULL, &t->event)) \
	X(gpushare_event_record, EVENT, gpushare_event_record(t->event, NULL)) \
	X(gpushare_event_wait, OPENED, gpushare_event_wait(t->event, NULL)) \
	X(gpushare_event_query, OPENED, gpushare_event_query(t->event)) \
	X(gpushare_event_wait_host, OPENED, gpushare_event_wait_host(t->event, 0)) \
	X(gpushare_event_close, OPENED, gpushare_event_close(t->event)) \
	X(gpushare_dlpack, ATTACHED, gpushare_dlpack(t->buffer, &whole, &t->tensor)) \
	X(deleter, TENSOR, delete (t->tensor)) \
	X(gpushare_publish, OWNED, gpushare_publish(t->buffer, NULL, &number)) \
	X(gpushare_publish_host, OWNED, gpushare_publish_host(t->buffer, &number)) \
	X(gpushare_acquire, ATTACHED, gpushare_acquire(t->buffer, NULL, 0)) \
	X(gpushare_acquire_host, ATTACHED, gpushare_acquire_host(t->buffer, 0, 0, &number)) \
	X(gpushare_release, JOINED, gpushare_release(t->buffer, NULL, 0)) \
	X(gpushare_release_host, JOINED, gpushare_release_host(t->buffer, 0)) \
	X(gpushare_reclaim, OWNED, gpushare_reclaim(t->buffer, NULL, 0)) \
	X(gpushare_reclaim_host, OWNED, gpushare_reclaim_host(t->buffer, 0, 0)) \
	X(gpushare_join, ATTACHED, gpushare_join(t->buffer, &number)) \
	X(gpushare_leave, JOINED, gpushare_leave(t->buffer)) \
	X(gpushare_sequence, ATTACHED, gpushare_sequence(t->buffer, &number)) \
	X(gpushare_order_status, ATTACHED, gpushare_order_status(t->buffer))

#define X(name, kind, call) \
	static int do_##name(struct thing *t) \
	{ \
		struct gpushare_registry_info registry; \
		struct gpushare_tag tags[GPUSHARE_TAGS_MAX]; \
		struct gpushare_notice notice; \
		struct gpushare_info info; \
		struct gpushare_buffer *b; \
		enum gpushare_state state; \
		char bytes[SIZE]; \
		uint64_t number; \
		size_t count; \
\
		(void)t, (void)registry, (void)tags, (void)notice, (void)info, (void)b, \
		    (void)state; \
		(void)bytes, (void)number, (void)count; \
		return call; \
	}
CALLS(X)
#undef X

static const struct call {
	const char *name;
	enum kind kind;
	int (*make)(struct thing *thing);
} calls[] = {
#define X(name, kind, call) {#name, kind, do_##name},
    CALLS(X)
#undef X
};

static const struct call *call;
static struct thing things[CALLERS * ROUNDS];

static void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "api_timely: %s: %s\n", what, gpushare_explain());
	exit(1);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void own(struct thing *thing, unsigned int flags)
{
	const struct gpushare_alloc_options options = {.device = -1, .flags = flags};
	char name[sizeof(thing->name) + 4];

	snprintf(name, sizeof(name), "%s.own", thing->name);
	must(!gpushare_alloc_with(session, name, SIZE, &options, &thing->buffer), "alloc");
}

static void attach(struct thing *thing)
{
	must(!gpushare_attach(session, thing->theirs, NULL, &thing->buffer), "attach");
}

/* The first allocation creates the driver's context. The time limits don't cover that. */
static void warm_up(void)
{
	struct thing first = {.name = ""};

	snprintf(first.name, sizeof(first.name), "%s.%d", call->name, (int)getpid());
	own(&first, 0);
	must(!gpushare_free(first.buffer), "free");
}

/* Open another session, and give it an attachment, a consumer and a buffer to release. */
static void open_session(struct thing *thing)
{
	struct gpushare_buffer *buffer;

	must(!gpushare_open(NULL, &thing->session), "open");
	must(!gpushare_attach(thing->session, thing->theirs, NULL, &buffer), "attach");
	must(!gpushare_join(buffer, NULL), "join");
	must(!gpushare_alloc(thing->session, thing->name, -1, SIZE, &buffer), "alloc");
}

static void prepare(struct thing *thing, int i)
{
	snprintf(thing->name, sizeof(thing->name), "%s.%d", call->name, i);
	snprintf(thing->theirs, sizeof(thing->theirs), "w%d", i);
	switch (call->kind) {
	case NOTHING:
		break;
	case OWNED:
		own(thing, 0);
		break;
	case STAGED:
		own(thing, GPUSHARE_FLAG_STAGED);
		break;
	case VMM:
		own(thing, GPUSHARE_FLAG_VMM);
		break;
	case MAP:
		own(thing, GPUSHARE_FLAG_VMM);
		(void)gpushare_map(thing->buffer, 0, SIZE, GPUSHARE_READ | GPUSHARE_WRITE,
				   &thing->map);
		break;
	case ATTACHED:
		attach(thing);
		break;
	case MIRROR:
		attach(thing);
		must(!gpushare_mirror_open(thing->buffer, 0, SIZE, GPUSHARE_WRITE, &thing->mirror),
		     "mirror");
		break;
	case TENSOR:
		attach(thing);
		must(!gpushare_dlpack(thing->buffer, &whole, &thing->tensor), "dlpack");
		break;
	case JOINED:
		attach(thing);
		must(!gpushare_join(thing->buffer, NULL), "join");
		break;
	case EVENT:
		must(!gpushare_event_create(session, thing->name, -1, 0, &thing->event),
		     "event_create");
		break;
	case OPENED:
		must(!gpushare_event_open(session, "event", NULL, &thing->event), "event_open");
		break;
	case WATCH:
		must(!gpushare_watch(session, NULL, &thing->watch), "watch");
		break;
	case SESSION:
		open_session(thing);
		break;
	}
}

static void took(long began_ms, long *slowest_ms)
{
	long ms = now_ms() - began_ms;

	if (ms > *slowest_ms)
		*slowest_ms = ms;
}

static void *run_calls(void *out_slowest_ms)
{
	static _Atomic int next;

	pthread_barrier_wait(&start);
	for (int round = 0; round < ROUNDS; round++) {
		struct thing *thing = &things[next++];
		long began_ms = now_ms();

		(void)call->make(thing);
		took(began_ms, out_slowest_ms);
	}
	calling--;
	return NULL;
}

static void *run_questions(void *out_slowest_ms)
{
	struct gpushare_info info;

	pthread_barrier_wait(&start);
	while (calling) {
		long began_ms = now_ms();
		int status = gpushare_stat(session, "nobody", &info);

		must(status == GPUSHARE_E_TIMED_OUT || status == GPUSHARE_E_NO_REGISTRY, "stat");
		took(began_ms, out_slowest_ms);
	}
	return NULL;
}

static void make_each(struct thing *each, const char *where)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		printf("%s %s %s\n", where, calls[i].name, status_name(calls[i].make(&each[i])));
	printf("%s close %s\n", where, status_name(gpushare_close(session)));
	fflush(stdout);
}

/* In a forked child, calls on the parent's objects leave these intact for the parent. A session
 * that the child opens itself works. */
static void fork_all(void)
{
	static struct thing each[sizeof(calls) / sizeof(*calls)];
	struct gpushare_buffer *buffer;
	struct gpushare_info info;
	int status;
	pid_t child;

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		call = &calls[i];
		prepare(&each[i], 0);
	}
	child = fork();
	if (!child) {
		make_each(each, "child");
		must(!gpushare_open(NULL, &session), "open");
		must(!gpushare_stat(session, "w0", &info), "stat");
		must(!gpushare_stat(session, "gpushare_free.0.own", &info) &&
			 info.owner_pid == getppid(),
		     "the parent's");
		printf("own attach %s\n",
		       status_name(gpushare_attach(session, "w0", NULL, &buffer)));
		fflush(stdout);
		must(!gpushare_close(session), "close");
		if (getenv("COVERAGE"))
			exit(
			    0); /* _exit() writes no counts; a real driver may not survive exit() */
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child && !status, "the child");
	make_each(each, "parent");
}

static void give_nothing(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct thing none = {.name = "x", .theirs = "x"};

		if (calls[i].kind != TENSOR) /* the deleter is the tensor's own */
			printf("%s %s\n", calls[i].name, status_name(calls[i].make(&none)));
		gpushare_close(none.session); /* by gpushare_open() */
	}
}

/* X(call): the result, the list or the callback is NULL */
#define MISSING(X) \
	X(gpushare_open(NULL, NULL)) \
	X(gpushare_share(session, "x", gpushare_pointer(b), SIZE, NULL)) \
	X(gpushare_alloc(session, "x", -1, SIZE, NULL)) \
	X(gpushare_attach(session, "w0", NULL, NULL)) \
	X(gpushare_attach_many(session, NULL, 1, NULL, &b)) \
	X(gpushare_attach_many(session, &name, 1, NULL, NULL)) \
	X(gpushare_share_parts(b, NULL, 1)) \
	X(gpushare_tag(session, "w0", NULL, 1)) \
	X(gpushare_tags(b, NULL, &size)) \
	X(gpushare_tags(b, tags, NULL)) \
	X(gpushare_holders(session, "w0", 0, NULL, NULL)) \
	X(gpushare_stat(session, "w0", NULL)) \
	X(gpushare_stat(session, NULL, &info)) \
	X(gpushare_list(session, NULL, NULL, NULL)) \
	X(gpushare_stat_registry(session, NULL)) \
	X(gpushare_watch(session, NULL, NULL)) \
	X(gpushare_watch_next(watch.watch, 0, NULL)) \
	X(gpushare_state(b, NULL)) \
	X(gpushare_buffer_info(b, NULL)) \
	X(gpushare_buffer_info(NULL, &info)) \
	X(gpushare_read(b, 0, 1, NULL, NULL)) \
	X(gpushare_write(b, 0, 1, NULL, NULL)) \
	X(gpushare_copy_from(b, 0, NULL, 1)) \
	X(gpushare_copy_to(b, 0, NULL, 1)) \
	X(gpushare_map(b, 0, SIZE, GPUSHARE_READ, NULL)) \
	X(gpushare_map_info(NULL, NULL)) \
	X(gpushare_mirror_open(b, 0, SIZE, GPUSHARE_READ, NULL)) \
	X(gpushare_event_create(session, "x", -1, 0, NULL)) \
	X(gpushare_event_info(event.event, NULL)) \
	X(gpushare_event_info(NULL, &info)) \
	X(gpushare_dlpack(b, &whole, NULL)) \
	X(gpushare_sequence(b, NULL))

static void give_no_result(void)
{
	struct thing own_one = {.name = "own"}, event = {.name = "event"}, watch = {.name = ""};
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX];
	const char *name = "w0";
	struct gpushare_info info;
	struct gpushare_buffer *b;
	size_t size;

	own(&own_one, 0);
	b = own_one.buffer;
	must(!gpushare_event_create(session, "event", -1, 0, &event.event), "event_create");
	must(!gpushare_watch(session, NULL, &watch.watch), "watch");
#define X(call) printf("%s %s: %s\n", #call, status_name(call), gpushare_explain());
	MISSING(X)
#undef X
	printf("of NULL: %zu %zu %zu %d %d %d %d %s\n", gpushare_size(NULL),
	       gpushare_map_size(NULL), gpushare_mirror_size(NULL), gpushare_device(NULL),
	       gpushare_is_read_only(NULL), gpushare_was_adopted(NULL), gpushare_watch_fd(NULL),
	       gpushare_ordering_text(gpushare_ordering(NULL)));
	gpushare_watch_close(watch.watch);
	must(!gpushare_close(session), "close");
}

static void print_texts(void)
{
#define X(name, value, text) printf("%s=%s ", #name, gpushare_state_text(value));
	GPUSHARE_STATES(X)
#undef X
	printf("%s\n", gpushare_state_text(99));
#define X(name, value, text) printf("%s=%s ", #name, gpushare_notice_text(value));
	GPUSHARE_NOTICES(X)
#undef X
	printf("%s\n", gpushare_notice_text(99));
#define X(name, value, text) printf("%s=%s ", #name, gpushare_ordering_text(value));
	GPUSHARE_ORDERINGS(X)
#undef X
	printf("%s\n", gpushare_ordering_text(99));
}

int main(int count, char **argument)
{
	pthread_t threads[CALLERS + ASKERS];
	long slowest_ms[CALLERS + ASKERS] = {0}, slowest = 0;

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		if (count < 2)
			puts(calls[i].name);
		else if (!strcmp(calls[i].name, argument[1]))
			call = &calls[i];
	}
	if (count < 2)
		return 0;
	if (!strcmp(argument[1], "nothing"))
		return give_nothing(), 0;
	if (!strcmp(argument[1], "texts"))
		return print_texts(), 0;
	must(!gpushare_open(NULL, &session), "open");
	if (!strcmp(argument[1], "forked"))
		return fork_all(), 0;
	if (!strcmp(argument[1], "results"))
		return give_no_result(), 0;
	must(call != NULL, "the call");
	warm_up();
	for (int i = 0; i < CALLERS * ROUNDS; i++)
		prepare(&things[i], i);
	puts("open");
	fflush(stdout);
	getchar(); /* returns after the test has stopped the registry */
	pthread_barrier_init(&start, NULL, CALLERS + ASKERS);
	for (int i = 0; i < CALLERS + ASKERS; i++)
		must(!pthread_create(&threads[i], NULL, i < CALLERS ? run_calls : run_questions,
				     &slowest_ms[i]),
		     "pthread_create");
	for (int i = 0; i < CALLERS + ASKERS; i++) {
		pthread_join(threads[i], NULL);
		if (slowest_ms[i] > slowest)
			slowest = slowest_ms[i];
	}
	printf("%s %ld\n", call->name, slowest);
	return 0;
}
