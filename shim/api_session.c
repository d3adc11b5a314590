/* SPDX-License-Identifier: MIT */
#include "api_session.h"

#include <string.h>

#include "cleanup.h"

int session_check(const struct gpushare_session *session)
{
	if (!session)
		return api_fail(GPUSHARE_E_INVALID,
				"the session is NULL; get one from gpushare_open()");
	if (session->pid != getpid())
		return api_fail(GPUSHARE_E_FORKED,
				"the session was opened by process %d before fork(); call "
				"gpushare_open() in this process",
				session->pid);
	return GPUSHARE_OK;
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
	char why[API_SENTENCE_MAX];
	const struct driver *driver = driver_open(why, sizeof(why));

	if (!driver) {
		api_fail(GPUSHARE_E_NO_DRIVER, "%s", why);
		return NULL;
	}
	pthread_mutex_lock(&session->lock);
	if (!session->driver)
		session->driver = driver; /* once: it is read without the lock */
	pthread_mutex_unlock(&session->lock);
	return driver;
}

int session_ask(struct gpushare_session *session, const request *ask, pb_size_t body,
		void *out_body, size_t body_size)
{
	struct client *client = session->client;
	int status;

	pthread_mutex_lock(&session->lock);
	client->request = *ask;
	status = client_call(client, 0);
	if (status)
		api_fail(status, "%s", *client->why ? client->why : status_text(status));
	else if (body && client->reply.which_body != body)
		status = api_fail(GPUSHARE_E_PROTOCOL,
				  "the registry in %s answered another question than was asked; do "
				  "its version and %s agree?",
				  client->directory, GPUSHARE_VERSION);
	else if (body)
		memcpy(out_body, &client->reply.body, body_size);
	pthread_mutex_unlock(&session->lock);
	return status;
}

/* A connection that has gone has taken the lease along: nothing is left to give back. */
void session_tell(struct gpushare_session *session, const request *tell)
{
	struct client *client = session->client;
	bool autostart;

	pthread_mutex_lock(&session->lock);
	autostart = client->autostart;
	if (client->fd >= 0) {
		client->request = *tell;
		client->autostart = false; /* a new registry would not know what we mean */
		(void)client_call(client, 0);
		client->autostart = autostart;
	}
	pthread_mutex_unlock(&session->lock);
}

void session_tell_detach(struct gpushare_session *session, const struct gpushare_info *info)
{
	request tell = {.which_verb = gpushare_Request_detach_tag};

	memcpy(tell.verb.detach.name, info->name, sizeof(info->name));
	tell.verb.detach.generation = info->generation;
	session_tell(session, &tell);
}

void session_tell_withdraw(struct gpushare_session *session, const struct gpushare_info *info)
{
	request tell = {.which_verb = gpushare_Request_withdraw_tag};

	memcpy(tell.verb.withdraw.name, info->name, sizeof(info->name));
	tell.verb.withdraw.generation = info->generation;
	session_tell(session, &tell);
}

void session_add(struct gpushare_session *session, struct gpushare_buffer *buffer)
{
	pthread_mutex_lock(&session->lock);
	buffer->next = session->buffers;
	session->buffers = buffer;
	pthread_mutex_unlock(&session->lock);
}

/* The caller holds the lock. */
static void session_unlist(struct gpushare_session *session, const struct gpushare_buffer *buffer)
{
	for (struct gpushare_buffer **at = &session->buffers; *at; at = &(*at)->next) {
		if (*at == buffer) {
			*at = buffer->next;
			return;
		}
	}
}

enum release session_release(struct gpushare_session *session, struct gpushare_buffer *buffer)
{
	enum release what = RELEASE_COUNTED;

	pthread_mutex_lock(&session->lock);
	if (--buffer->count == 0 && !buffer->users)
		what = RELEASE_LAST;
	else if (!buffer->count && !buffer->owed)
		what = RELEASE_HELD;
	if (what == RELEASE_HELD)
		buffer->owed = true;
	if (what == RELEASE_LAST)
		session_unlist(session, buffer);
	pthread_mutex_unlock(&session->lock);
	return what;
}

void session_use(struct gpushare_buffer *buffer)
{
	pthread_mutex_lock(&buffer->session->lock);
	buffer->users++;
	pthread_mutex_unlock(&buffer->session->lock);
}

void session_unuse(struct gpushare_buffer *buffer)
{
	struct gpushare_session *session = buffer->session;
	const struct gpushare_info info = buffer->info;
	bool attached = buffer->kind == BUFFER_ATTACHED || buffer->kind == BUFFER_OWN;
	bool gone = false, owed = false;

	pthread_mutex_lock(&session->lock);
	if (--buffer->users == 0) {
		gone = !buffer->count;
		owed = attached && buffer->owed;
		buffer->owed = false;
	}
	if (gone)
		session_unlist(session, buffer);
	pthread_mutex_unlock(&session->lock);
	if (gone && buffer->kind == BUFFER_ATTACHED)
		mapping_close(buffer);
	if (gone && buffer->kind == BUFFER_ALLOCATED)
		share_release(buffer);
	if (gone)
		buffer_free(buffer);
	if (owed)
		session_tell_detach(session, &info);
}

void buffer_free(struct gpushare_buffer *buffer)
{
	if (buffer->fd >= 0)
		close(buffer->fd);
	free(buffer);
}

static void session_free(struct gpushare_session *session)
{
	mirror_forget_all(session);
	while (session->buffers) {
		struct gpushare_buffer *buffer = session->buffers;

		session->buffers = buffer->next;
		buffer_free(buffer);
	}
	client_free(session->client);
	free(session);
}

API_PUBLIC int gpushare_open(const struct gpushare_open_options *options,
			     struct gpushare_session **out_session)
{
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
	pthread_mutex_init(&session->lock, NULL);
	pthread_mutex_init(&session->devices.lock, NULL);
	session->client = client_new(&wanted);
	if (!session->client) {
		session_free(session);
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for a session");
	}
	status = client_connect(session->client);
	if (status) {
		api_fail(status, "%s", session->client->why);
		session_free(session);
		return status;
	}
	*out_session = session;
	return GPUSHARE_OK;
}

/* Unmap before the registry hears of it, withdraw before the memory goes. */
static void session_give_back(struct gpushare_session *session)
{
	for (struct gpushare_buffer *buffer = session->buffers; buffer; buffer = buffer->next) {
		if (buffer->kind == BUFFER_ATTACHED)
			mapping_close(buffer);
		else if (buffer->kind != BUFFER_OWN)
			session_tell_withdraw(session, &buffer->info);
	}
	for (struct gpushare_buffer *buffer = session->buffers; buffer; buffer = buffer->next)
		if (buffer->kind == BUFFER_ALLOCATED)
			share_release(buffer);
}

API_PUBLIC int gpushare_close(struct gpushare_session *session)
{
	if (!session)
		return GPUSHARE_OK;
	/* In a forked child the CUDA side and the lease are the parent's. */
	if (session->pid == getpid()) {
		mirror_drop_all(session);
		session_give_back(session);
		if (session->driver) {
			staging_finish(&session->staging, session->driver);
			device_release_all(&session->devices, session->driver);
		}
	}
	session_free(session);
	return GPUSHARE_OK;
}
