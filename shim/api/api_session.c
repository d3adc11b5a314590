/* SPDX-License-Identifier: MIT */
/* A session: its client, its requests, its buffers, and its resync with a restarted registry. */
#include "api_session.h"

#include <stdio.h>
#include <string.h>

#include "api_order.h"
#include "api_used.h"
#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/fork_check.h"
#include "base/monotonic.h"
#include "base/shim_lock.h"

#define SILENT_MS 1000
#define DRIVER_MIN_MS 10000 /* setting up a stream-sync page may take seconds on a loaded host */

int session_check(const struct gpushare_session *session)
{
	if (!session)
		return api_fail(GPUSHARE_E_INVALID,
				"the session is NULL; get one from gpushare_open()");
	if (session->process != fork_check_number())
		return api_fail(GPUSHARE_E_FORKED,
				"the session was opened by process %d before fork(); call "
				"gpushare_open() in this process",
				session->pid);
	return GPUSHARE_OK;
}

int session_check_name(const struct gpushare_session *session, const char *name)
{
	int status = api_check_name(name);

	return status ? status : session_check(session);
}

int session_check_glob(const struct gpushare_session *session, const char *glob)
{
	int status = session_check(session);

	if (!status && glob && strlen(glob) > GPUSHARE_NAME_MAX)
		return api_fail(GPUSHARE_E_INVALID,
				"the pattern is %zu bytes long; %d are the limit", strlen(glob),
				GPUSHARE_NAME_MAX);
	return status;
}

int session_check_buffer(const struct gpushare_buffer *buffer)
{
	if (!buffer)
		return api_fail(GPUSHARE_E_INVALID,
				"the buffer is NULL; get one from gpushare_attach()");
	return session_check(buffer->session);
}

const struct driver *session_driver(struct gpushare_session *session)
{
	const char *why;
	const struct driver *driver = driver_open(&why);

	if (!driver) {
		api_fail(GPUSHARE_E_NO_DRIVER, "%s", why);
		return NULL;
	}
	pthread_mutex_lock(&session->lock);
	if (!session->driver)
		session->driver = driver; /* set once: it is read without the lock */
	pthread_mutex_unlock(&session->lock);
	return driver;
}

/* False for a while after the registry did not answer: then the caller leaves out requests that
 * aren't needed. */
static bool session_is_heard(const struct gpushare_session *session)
{
	return !client_is_silent(session->client) || session->silent_until_ms <= monotonic_ms();
}

void session_waited(int64_t began_ms)
{
	api_waited_ms += monotonic_ms() - began_ms;
}

int64_t session_deadline(const struct gpushare_session *session)
{
	int64_t left_ms = session->timeout_ms - (api_waited_ms - api_excused_ms);

	return monotonic_ms() + (left_ms > 0 ? left_ms : 0);
}

bool session_try_client(struct gpushare_session *session, int64_t until_ms)
{
	int64_t began_ms = monotonic_ms();
	int64_t left_ms = until_ms - began_ms;

	if (left_ms <= 0)
		return false;
	if (!lock_take_within(&session->asking, (unsigned int)left_ms)) {
		session_waited(began_ms);
		return false;
	}
	session->taken_ms = monotonic_ms();
	api_waited_ms += session->taken_ms - began_ms;
	left_ms = until_ms - session->taken_ms;
	session->client->timeout_ms = left_ms > 0 ? (unsigned int)left_ms : 1;
	return true;
}

int session_fail_client(const struct gpushare_session *session)
{
	return api_fail(GPUSHARE_E_TIMED_OUT,
			"the registry did not answer this thread, or another one, in time (%u ms); "
			"is it stopped or overloaded? GPUSHARE_TIMEOUT_MS sets the limit",
			session->timeout_ms);
}

bool session_look_client(struct gpushare_session *session)
{
	if (pthread_mutex_trylock(&session->asking))
		return session_try_client(session, session_deadline(session));
	session->taken_ms = 0;
	return true;
}

/* The caller holds the lock, or no other thread has the session. */
static void see_client(struct gpushare_session *session)
{
	session->seen = (struct client_seen){
	    .connections = session->client->connections,
	    .connected = !client_is_silent(session->client),
	};
}

void session_give_client(struct gpushare_session *session)
{
	if (session->taken_ms) { /* else taken by session_look_client(): no request was made */
		session_waited(session->taken_ms);
		session->client->timeout_ms = session->timeout_ms;
		pthread_mutex_lock(&session->lock);
		see_client(session);
		pthread_mutex_unlock(&session->lock);
	}
	pthread_mutex_unlock(&session->asking);
}

static bool list(struct resync *resync)
{
	struct gpushare_session *session = resync->owner;
	bool added = true;

	pthread_mutex_lock(&session->lock);
	for (const struct gpushare_buffer *buffer = session->buffers; buffer;
	     buffer = buffer->next) {
		const struct resync_ref ref = {
		    .generation = buffer->info.generation,
		    .attached = buffer_is_attached(buffer),
		};

		added = added && (buffer->lost || resync_add(resync, &ref));
	}
	pthread_mutex_unlock(&session->lock);
	return added;
}

/* The session may have attached the buffer both with and without CUDA; the registry keeps one count
 * for both. */
static bool hold(struct resync *resync, const struct resync_ref *ref, gpushare_Hold *out_hold)
{
	struct gpushare_session *session = resync->owner;
	const struct gpushare_buffer *buffer;

	out_hold->count = 0;
	pthread_mutex_lock(&session->lock);
	for (buffer = session->buffers; buffer; buffer = buffer->next) {
		if (buffer->info.generation != ref->generation || buffer->lost ||
		    buffer_is_attached(buffer) != ref->attached)
			continue;
		memcpy(out_hold->name, buffer->info.name, sizeof(out_hold->name));
		out_hold->count += buffer->count + buffer->owed;
	}
	pthread_mutex_unlock(&session->lock);
	return out_hold->count;
}

/* Under the session's lock. If the session has both shared and attached the buffer, return the
 * shared one. */
static struct gpushare_buffer *find(const struct gpushare_session *session, uint64_t generation)
{
	struct gpushare_buffer *found = NULL;

	for (struct gpushare_buffer *buffer = session->buffers; buffer; buffer = buffer->next)
		if (buffer->info.generation == generation && !buffer->lost &&
		    (!found || !buffer_is_attached(buffer)))
			found = buffer;
	return found;
}

static bool copy_of(struct gpushare_session *session, uint64_t generation,
		    struct gpushare_buffer *out_copy)
{
	const struct gpushare_buffer *found;

	pthread_mutex_lock(&session->lock);
	found = find(session, generation);
	if (found) {
		*out_copy = *found;
		if (found->whole)
			out_copy->mapping.held = found->whole->mapping.held;
	}
	pthread_mutex_unlock(&session->lock);
	return found != NULL;
}

/* The driver can't export imported memory again, so use the descriptor held for it (client_held.h),
 * if there is one. Memory of another process can be shared again only if it has the KEEP flag. */
static int export_again(struct gpushare_buffer *copy, int *out_fd)
{
	bool unified = copy->info.backing == GPUSHARE_BACKING_HOST;

	if (!(copy->info.flags & GPUSHARE_FLAG_KEEP) && buffer_is_attached(copy))
		return GPUSHARE_E_NOT_SHAREABLE;
	if (buffer_is_event(copy))
		return GPUSHARE_OK;
	if (unified && !copy->host_only)
		vmm_host_export(copy->session->driver, &copy->mapping, out_fd);
	else
		*out_fd = held_open(copy->mapping.held);
	if (*out_fd >= 0)
		return GPUSHARE_OK;
	return !unified && !buffer_is_attached(copy) && !copy->mapping.held
		   ? share_export(copy, out_fd)
		   : GPUSHARE_E_NOT_SHAREABLE;
}

static int ask_again(struct gpushare_session *session, const request *ask, int fd, int64_t until_ms,
		     uint64_t *out_generation)
{
	struct client *client = session->client;
	int status;

	if (!session_try_client(session, until_ms))
		return GPUSHARE_E_TIMED_OUT;
	client->request = *ask;
	client->goes = fd;
	status = client_call(client, 0);
	if (status == GPUSHARE_OK)
		*out_generation = client->reply.body.share.generation;
	session_give_client(session);
	return status;
}

static void rename_to(struct gpushare_buffer *buffer, uint64_t generation)
{
	if (buffer->info.backing == GPUSHARE_BACKING_HOST)
		used_rename(buffer->mapping.pointer, buffer->info.generation, generation);
	buffer->info.generation = generation;
	buffer->session->attached++;
}

/* Record whether the registry has the buffer again. If the buffer was freed meanwhile, withdraw the
 * name that was just shared. */
static void settle(struct gpushare_session *session, struct gpushare_buffer *copy, int status,
		   uint64_t generation)
{
	struct gpushare_buffer *found;

	pthread_mutex_lock(&session->lock);
	found = find(session, copy->info.generation);
	if (found && !buffer_is_attached(found) && status != GPUSHARE_OK)
		found->lost = true;
	else if (found)
		rename_to(found, generation);
	pthread_mutex_unlock(&session->lock);
	if (found || status != GPUSHARE_OK || buffer_is_attached(copy))
		return;
	copy->info.generation = generation;
	session_tell_withdraw(session, &copy->info);
}

/* Look the buffer up again after the export. If it was freed by then, its handle may belong to
 * other memory. False: the registry did not answer, and the rest is left for a later call. */
static bool share(struct resync *resync, const struct resync_ref *wanted, int64_t until_ms)
{
	struct gpushare_session *session = resync->owner;
	uint64_t generation = wanted->generation;
	struct gpushare_buffer copy, now;
	request ask = {.which_verb = gpushare_Request_share_tag};
	gpushare_Share *share = &ask.verb.share;
	_cleanup_close_ int fd = -1;
	int status;

	if (!copy_of(session, wanted->generation, &copy))
		return true;
	if (buffer_is_attached(&copy))
		share_keep_rights(&copy);
	share_describe(&copy, share);
	share->again = wanted->anew ? 0 : wanted->generation;
	share->orphan = buffer_is_attached(&copy);
	status = export_again(&copy, &fd);
	memcpy(share->handle, &copy.handle, sizeof(share->handle));
	if (!copy_of(session, wanted->generation, &now))
		return true;
	if (status == GPUSHARE_OK)
		status = ask_again(session, &ask, fd, until_ms, &generation);
	if (status_is_unheard(status))
		return false;
	settle(session, &copy, status, generation);
	return true;
}

/* How a session tells a restarted registry of its buffers and shares them again. */
static const struct resync_calls session_resync_calls = {
    .list = list,
    .hold = hold,
    .share = share,
};

/* Give the client back. Until `until_ms`, share again the buffers that the registry asked for. */
static void leave(struct gpushare_session *session, int64_t until_ms)
{
	session_give_client(session);
	if (resync_wants(&session->resync)) {
		API_KEEP_SENTENCE;

		resync_share(&session->resync, until_ms, session->timeout_ms);
	}
	session_order_again(session);
}

static int call(struct gpushare_session *session)
{
	struct client *client = session->client;
	int64_t began_ms = monotonic_ms();
	bool slow;
	int status;

	if (resync_missed(&session->resync))
		client_tell_anew(client);
	status = client_call(client, 0);
	slow = monotonic_ms() - began_ms >= session->timeout_ms / 2;
	if (status == GPUSHARE_E_TIMED_OUT || (status == GPUSHARE_E_NO_REGISTRY && slow))
		session->silent_until_ms = monotonic_ms() + SILENT_MS;
	else if (status != GPUSHARE_E_NO_REGISTRY) {
		api_excuse(api_waited_ms);
		session->taken_ms = monotonic_ms();
	}
	return status;
}

static bool read_body(const reply *answer, struct session_body body)
{
	if (body.tag && answer->which_body != body.tag)
		return false;
	if (body.tag)
		memcpy(body.out, &answer->body, body.size);
	return true;
}

int session_read_answer(const struct gpushare_session *session, const reply *answer,
			struct session_body body)
{
	if (read_body(answer, body))
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_PROTOCOL,
			"the registry in %s sent the wrong kind of answer; is its version "
			"%s, too?",
			session->client->directory, GPUSHARE_VERSION);
}

/* How far the session has reported its buffers to the registry. */
static struct client_seen see_reports(struct gpushare_session *session)
{
	struct client_seen reports;

	pthread_mutex_lock(&session->lock);
	reports = session->seen; /* counts a new connection only after its resync */
	pthread_mutex_unlock(&session->lock);
	reports.pending = resync_is_pending(&session->resync);
	return reports;
}

static int ask_once(struct gpushare_session *session, const request *ask, struct session_body body,
		    int fd, struct session_answer *out_answer)
{
	struct client *client = session->client;
	int64_t until_ms = session_deadline(session);
	int status;

	*out_answer = (struct session_answer){.fd = -1};
	if (!session_try_client(session, until_ms))
		return session_fail_client(session);
	client->request = *ask;
	client->goes = fd;
	status = call(session);
	if (status)
		api_fail(status, "%s", *client->why ? client->why : status_text(status));
	else
		status = session_read_answer(session, &client->reply, body);
	if (!status)
		out_answer->fd = client_take_fd(client);
	out_answer->readings = resync_readings(&session->resync);
	leave(session, until_ms);
	return status;
}

int session_ask_passing(struct gpushare_session *session, const request *ask,
			struct session_body body, int fd, struct session_answer *out_answer)
{
	struct client_seen before, now = see_reports(session);
	bool again = false;
	int status;

	do {
		before = now;
		status = ask_once(session, ask, body, fd, out_answer);
		if (status != GPUSHARE_E_NOT_FOUND && status != GPUSHARE_E_TIMED_OUT)
			break;
		now = see_reports(session);
		out_answer->early =
		    before.pending || now.pending || before.connections != now.connections;
		again = !again && out_answer->early && now.connected;
	} while (again);
	out_answer->status = status;
	return status;
}

int session_ask(struct gpushare_session *session, const request *ask, struct session_body body)
{
	struct session_answer got;
	int status = session_ask_passing(session, ask, body, -1, &got);

	fds_close(&got.fd, got.fd >= 0);
	return status;
}

unsigned int session_connections(struct gpushare_session *session)
{
	unsigned int connections;

	pthread_mutex_lock(&session->lock);
	connections = session->seen.connections;
	pthread_mutex_unlock(&session->lock);
	return connections;
}

int session_tell_of(struct gpushare_session *session, const request *tell,
		    const unsigned int *readings, struct session_body body)
{
	struct client *client = session->client;
	int64_t until_ms = session_deadline(session);
	int status = GPUSHARE_E_TIMED_OUT;

	if (!session_try_client(session, until_ms)) {
		resync_miss(&session->resync);
		return status;
	}
	if (readings)
		resync_check(&session->resync, *readings);
	if (session_is_heard(session)) {
		client->request = *tell;
		client->giving_back = true;
		status = call(session);
		client->giving_back = false;
	} else {
		resync_miss(&session->resync);
	}
	if (!status && !read_body(&client->reply, body))
		status = GPUSHARE_E_PROTOCOL;
	status = client_await_next(client, status);
	leave(session, until_ms);
	return status;
}

void session_tell(struct gpushare_session *session, const request *tell)
{
	(void)session_tell_of(session, tell, NULL, NO_BODY);
}

void session_tell_detach(struct gpushare_session *session, const char *name, uint64_t generation,
			 unsigned int readings)
{
	request tell = {.which_verb = gpushare_Request_detach_tag};

	strcpy(tell.verb.detach.name, name);
	tell.verb.detach.generation = generation;
	(void)session_tell_of(session, &tell, &readings, NO_BODY);
}

void session_tell_withdraw(struct gpushare_session *session, const struct gpushare_info *info)
{
	request tell = {.which_verb = gpushare_Request_withdraw_tag};

	memcpy(tell.verb.withdraw.name, info->name, sizeof(info->name));
	tell.verb.withdraw.generation = info->generation;
	session_tell(session, &tell);
}

void session_add(struct gpushare_session *session, struct gpushare_buffer *buffer,
		 unsigned int readings)
{
	pthread_mutex_lock(&session->lock);
	resync_check(&session->resync, readings);
	DL_PREPEND(session->buffers, buffer);
	pthread_mutex_unlock(&session->lock);
}

/* Under the lock. End one attach: one that the registry doesn't know (`warm`) if there is any, else
 * one of `count`. */
static enum release session_count_down(struct gpushare_buffer *buffer)
{
	if (buffer->warm) {
		buffer->warm--;
		return RELEASE_WARM;
	}
	if (--buffer->count)
		return RELEASE_COUNTED;
	if (!buffer->users)
		return RELEASE_LAST;
	return buffer->owed ? RELEASE_COUNTED : RELEASE_HELD;
}

enum release session_release(struct gpushare_session *session, struct gpushare_buffer *buffer,
			     unsigned int *out_readings)
{
	struct ordering *ended = NULL;
	enum release what;

	pthread_mutex_lock(&session->lock);
	*out_readings = resync_readings(&session->resync);
	what = session_count_down(buffer);
	if (what == RELEASE_HELD && buffer_is_attached(buffer))
		buffer->owed = true;
	else if (what == RELEASE_HELD)
		buffer->lost = true; /* freed: a resync must leave it out */
	if (what == RELEASE_LAST)
		DL_DELETE(session->buffers, buffer);
	if (!buffer->count)
		ended = ordering_drop(buffer); /* now: a buffer in use may be attached again */
	pthread_mutex_unlock(&session->lock);
	ordering_finish(ended, what != RELEASE_LAST);
	return what;
}

void session_use(struct gpushare_buffer *buffer)
{
	pthread_mutex_lock(&buffer->session->lock);
	buffer->users++;
	pthread_mutex_unlock(&buffer->session->lock);
}

/* Close, keep or free the memory, depending on its kind; then free the struct. */
static int session_end(struct gpushare_session *session, struct gpushare_buffer *buffer)
{
	int status = GPUSHARE_OK;

	if ((buffer->kind == BUFFER_ATTACHED || buffer->kind == BUFFER_ALLOCATED) &&
	    !(buffer->deferred && session_deferred_put(session, buffer)))
		status = mapping_close(buffer);
	buffer_free(buffer);
	return status;
}

int session_unuse(struct gpushare_buffer *buffer)
{
	struct gpushare_session *session = buffer->session;
	bool gone = false, owed = false;
	int status = GPUSHARE_OK;
	struct gpushare_info info;
	unsigned int readings;

	pthread_mutex_lock(&session->lock);
	info = buffer->info;
	readings = resync_readings(&session->resync);
	if (--buffer->users == 0) {
		gone = !buffer->count;
		owed = buffer->owed;
		buffer->owed = false;
	}
	if (gone)
		DL_DELETE(session->buffers, buffer);
	pthread_mutex_unlock(&session->lock);
	if (gone)
		status = session_end(session, buffer);
	if (owed)
		session_tell_detach(session, info.name, info.generation, readings);
	return status;
}

/* Don't drop the descriptor of mapped unified memory: vmm_unmap() does that with the mapping, which
 * other buffers may use too. */
void buffer_free(struct gpushare_buffer *buffer)
{
	ordering_forget(buffer);
	if (buffer->host_only || buffer->info.backing != GPUSHARE_BACKING_HOST)
		held_drop(buffer->mapping.held);
	free(buffer);
}

static void session_free(struct gpushare_session *session)
{
	struct gpushare_buffer *buffer, *next;

	mirror_forget_all(session);
	DL_FOREACH_SAFE (session->buffers, buffer, next) {
		buffer_free(buffer);
	}
	session_deferred_finish(session);
	client_free(session->client);
	resync_finish(&session->resync);
	free(session);
}

API_PUBLIC int gpushare_open(const struct gpushare_open_options *options,
			     struct gpushare_session **out_session)
{
	API_CALL;
	static const struct gpushare_open_options defaults;
	struct gpushare_session *session;
	struct client_options wanted;
	int status;

	if (!out_session)
		return api_fail(GPUSHARE_E_INVALID, "out_session is NULL");
	if (!options)
		options = &defaults;
	wanted = (struct client_options){
	    .directory = options->directory,
	    .who = "api",
	    .timeout_ms = options->timeout_ms,
	    .autostart = !options->no_autostart,
	};
	session = calloc(1, sizeof(*session));
	if (!session)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for a session");
	session->pid = getpid();
	session->process = fork_check_number();
	pthread_mutex_init(&session->lock, NULL);
	pthread_mutex_init(&session->asking, NULL);
	pthread_mutex_init(&session->devices.lock, NULL);
	session->resync = (struct resync)RESYNC_INITIALIZER;
	session->resync.owner = session;
	session_deferred_init(session);
	session->client = client_new(&wanted);
	if (!session->client) {
		session_free(session);
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for a session");
	}
	session->timeout_ms = session->client->timeout_ms;
	session->driver_ms =
	    session->timeout_ms > DRIVER_MIN_MS ? session->timeout_ms : DRIVER_MIN_MS;
	resync_by(&session->resync, &session_resync_calls, session->client);
	status = client_connect(session->client);
	if (status) {
		api_fail(status, "%s", session->client->why);
		session_free(session);
		return status;
	}
	see_client(session);
	*out_session = session;
	return GPUSHARE_OK;
}

/* Unmap attachments before the registry is told, and withdraw names before their memory is
 * freed. */
static void session_give_back(struct gpushare_session *session)
{
	static const request stat = {.which_verb = gpushare_Request_stat_tag};
	struct gpushare_buffer *buffer;

	atomic_store(&session->resync.sharing, true); /* no resync shares a buffer from here on */
	DL_FOREACH (session->buffers, buffer) {
		ordering_end(buffer);
	}
	DL_FOREACH (session->buffers, buffer) {
		if (buffer->kind == BUFFER_ATTACHED)
			mapping_close(buffer);
		else if (buffer->kind != BUFFER_OWN)
			session_tell_withdraw(session, &buffer->info);
	}
	DL_FOREACH (session->buffers, buffer) {
		if (buffer->kind == BUFFER_ALLOCATED)
			mapping_close(buffer);
	}
	session_deferred_empty(session, true);
	/* If there is no connection, make one, so that the registry sees it close. Otherwise a
	 * registry that knows the session from its state file waits for the session to reconnect,
	 * as long as this process lives. */
	if (!client_stands(session->client))
		session_tell(session, &stat);
}

API_PUBLIC int gpushare_close(struct gpushare_session *session)
{
	API_CALL;
	if (!session)
		return GPUSHARE_OK;
	/* In a forked child, the CUDA objects and the session's key belong to the parent. */
	if (session->process == fork_check_number()) {
		mirror_drop_all(session);
		if (dlpack_holds(session))
			return GPUSHARE_OK;
		session_give_back(session);
		if (session->driver) {
			stream_sweep(session);
			staging_finish(&session->staging, session->driver);
			vmm_links_drop(&session->links, session->driver);
			device_release_all(&session->devices, session->driver);
		}
	}
	session_free(session);
	return GPUSHARE_OK;
}
