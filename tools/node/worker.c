/* SPDX-License-Identifier: MIT */
/*
 * The process that serves one connection, from the TLS handshake on. Its standard input is the
 * socket. So the node itself has no CUDA context, and a peer can't reach another peer's process.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "copy/copy.h"
#include "message.h"
#include "node.h"
#include "protocol.h"
#include "stream.h"
#include "ucx.h"

#define ALIVE_MS 3000	    /* between Hello answers, which say that the worker is alive */
#define ALIVE_MAX 20	    /* most Hellos while the puller allocates memory */
#define NAME_MS 500	    /* between two checks whether a buffer still has its name */
#define PUBLICATION_MS 5000 /* longest wait while a publisher writes */
#define READINGS_MAX 4	    /* attempts, if the publisher writes meanwhile */

struct worker {
	struct stream *stream;
	const char *refusal; /* refuse the first Ask with this, and end; "": serve */
	bool told;	     /* tell_node() was called */
	struct gpushare_session *session;
	const char *directory;
	const char *interface;		/* the connection's, if trusted; NULL: it isn't */
	struct ucx *ucx;		/* connected to the puller's UCX worker; NULL: none */
	struct gpushare_buffer *buffer; /* NULL: none is open */
	struct gpushare_info info;	/* of `buffer` */
	node_answer answer;
	uint8_t message[NODE_HEADER_SIZE + NODE_MESSAGE_MAX];
	uint8_t *copy;	  /* of the publication to send; NULL: `buffer` has none */
	uint64_t taken;	  /* bytes that were copied, compared or sent */
	bool by_ucx;	  /* the current Fetch wants the bytes by UCX */
	bool compares;	  /* take_part() compares `copy` with `buffer` */
	bool torn;	  /* `copy` and `buffer` differ */
	bool unread;	  /* the puller has asked for no bytes of the open buffer */
	uint64_t said_ms; /* when the last message was sent */
	char why[GPUSHARE_NAME_MAX + 128]; /* "": gpushare_explain() has the reason */
};

static bool send_answer(struct worker *worker)
{
	size_t size = message_write_answer(&worker->answer, worker->message);

	worker->said_ms = tool_now_ms();
	return size && !stream_send(worker->stream, worker->message, size);
}

static bool refuse(struct worker *worker, int status, const char *message)
{
	worker->answer = (node_answer){.status = status};
	snprintf(worker->answer.message, sizeof(worker->answer.message), "%.511s", message);
	return send_answer(worker);
}

static bool refuse_call(struct worker *worker, int status)
{
	return refuse(worker, status, *worker->why ? worker->why : gpushare_explain());
}

/* Called at each request, because the registry may start later than this process. */
static int open_session(struct worker *worker)
{
	const struct gpushare_open_options options = {.directory = worker->directory,
						      .no_autostart = 1};

	return worker->session ? GPUSHARE_OK : gpushare_open(&options, &worker->session);
}

static bool send_hello(struct worker *worker)
{
	gpushare_node_Hello *ours = &worker->answer.body.hello;
	const char *ucx = worker->interface ? ucx_version(NULL) : NULL;

	worker->answer.which_body = gpushare_node_Answer_hello_tag;
	ours->protocol = NODE_PROTOCOL;
	strcpy(ours->version, GPUSHARE_VERSION);
	strcpy(ours->ucx, ucx ? ucx : "");
	return send_answer(worker);
}

static bool hello(struct worker *worker, const gpushare_node_Hello *theirs)
{
	gpushare_node_Hello *ours = &worker->answer.body.hello;

	if (theirs->protocol != NODE_PROTOCOL)
		return refuse(worker, GPUSHARE_E_NOT_SUPPORTED,
			      "this node is of gpushare " GPUSHARE_VERSION
			      ", and speaks another version of the protocol");
	if (!directory_find(worker->directory, ours->directory))
		place_find(ours->directory, ours->place);
	return send_hello(worker);
}

static int add_to_page(const struct gpushare_info *info, void *user)
{
	struct worker *worker = user;
	gpushare_node_Page *page = &worker->answer.body.page;

	message_put_info(info, &page->buffers[page->buffers_count++]);
	if (page->buffers_count < sizeof(page->buffers) / sizeof(*page->buffers))
		return 0;
	if (!send_answer(worker))
		return 1;
	page->buffers_count = 0;
	return 0;
}

static bool list(struct worker *worker, const gpushare_node_List *ask)
{
	int status = open_session(worker);

	worker->answer.which_body = gpushare_node_Answer_page_tag;
	if (!status)
		status = gpushare_list(worker->session, *ask->glob ? ask->glob : NULL, add_to_page,
				       worker);
	if (status == GPUSHARE_E_CANCELLED)
		return false;
	if (status)
		return refuse_call(worker, status);
	worker->answer.body.page.last = true;
	return send_answer(worker);
}

static void detach(struct worker *worker)
{
	gpushare_detach(worker->buffer);
	worker->buffer = NULL;
	free(worker->copy);
	worker->copy = NULL;
}

/* Attach the buffer and get its record. If meanwhile another buffer takes the name, try again. */
static int attach(struct worker *worker, const char *name)
{
	struct gpushare_info own;

	for (;;) { /* the node ends a worker whose puller has given up */
		int status = copy_attach_quietly(worker->session, name, 0, false, &worker->buffer);

		if (!status)
			status = gpushare_buffer_info(worker->buffer, &own);
		if (!status)
			status = gpushare_stat(worker->session, name, &worker->info);
		if (status || own.generation == worker->info.generation)
			return status;
		detach(worker);
	}
}

/* Send a Hello, unless the peer doesn't read: the publisher would have to wait for such a peer. */
static void say_alive(struct worker *worker)
{
	struct pollfd peer = {.fd = STDIN_FILENO, .events = POLLOUT};

	if (poll(&peer, 1, 0) == 1 && !(peer.revents & (POLLERR | POLLHUP)))
		(void)send_hello(worker); /* if this fails, the answer fails too */
}

/* The callback of gpushare_read(): copy the bytes, or compare them with the copy. */
static int take_part(const void *data, size_t size, void *user)
{
	struct worker *worker = user;

	if (worker->compares)
		worker->torn |= memcmp(worker->copy + worker->taken, data, size) != 0;
	else
		memcpy(worker->copy + worker->taken, data, size);
	worker->taken += size;
	if (tool_now_ms() - worker->said_ms > ALIVE_MS)
		say_alive(worker);
	return worker->torn;
}

static int take_all(struct worker *worker, bool compares)
{
	int status;

	worker->taken = 0;
	worker->compares = compares;
	status = gpushare_read(worker->buffer, 0, worker->info.size, take_part, worker);
	return worker->torn ? GPUSHARE_OK : status;
}

static int fail(struct worker *worker, int status, const char *what)
{
	snprintf(worker->why, sizeof(worker->why), "'%s' %s", worker->info.name, what);
	return status;
}

/* Copy the newest publication. Publishers that call gpushare_reclaim() don't write meanwhile.
 * Others may write at any time, so the buffer is read twice, as `gpushare follow` does. */
static int take_publication(struct worker *worker)
{
	uint64_t first, now = 0;
	int status = gpushare_join(worker->buffer, &first);

	if (status)
		return status;
	say_alive(worker); /* CUDA's start may have taken long */
	if (!worker->copy)
		worker->copy = malloc(worker->info.size);
	if (!worker->copy)
		return fail(worker, GPUSHARE_E_NO_MEMORY, "is too large for the node's memory");
	worker->torn = true;
	for (int i = 0; !status && worker->torn && i < READINGS_MAX; i++) {
		worker->torn = false;
		status = gpushare_acquire_host(worker->buffer, first, PUBLICATION_MS,
					       &worker->info.sequence);
		if (status == GPUSHARE_E_OWNER_GONE) /* the last publication is final */
			status = gpushare_sequence(worker->buffer, &worker->info.sequence);
		if (!status)
			status = take_all(worker, false);
		if (!status)
			status = take_all(worker, true);
		if (!status)
			status = gpushare_sequence(worker->buffer, &now);
		worker->torn |= now != worker->info.sequence;
	}
	if (!status && worker->torn)
		return fail(worker, GPUSHARE_E_TIMED_OUT,
			    "was published during each of 4 readings; pull it while its publisher "
			    "pauses");
	if (!status)
		(void)gpushare_leave(worker->buffer);
	return status;
}

/* Wait up to NAME_MS for a publication after the version that the puller has. If that version is of
 * another generation, any publication will do. */
static int wait_once(struct worker *worker, const gpushare_node_Open *has)
{
	uint64_t after = has->generation == worker->info.generation ? has->sequence : 0, first;
	int status = gpushare_join(worker->buffer, &first);

	if (!status && first <= after) { /* so that the publisher doesn't wait for us */
		status = gpushare_release_host(worker->buffer, after);
		first = after + 1;
	}
	return status ? status : gpushare_acquire_host(worker->buffer, first, NAME_MS, NULL);
}

static int wait_for_next(struct worker *worker, const gpushare_node_Open *has)
{
	enum gpushare_state state;
	struct gpushare_info now;
	int status;

	while ((status = wait_once(worker, has)) == GPUSHARE_E_TIMED_OUT) {
		if (!gpushare_state(worker->buffer, &state) &&
		    (state == GPUSHARE_STATE_WITHDRAWN || state == GPUSHARE_STATE_REPLACED))
			return fail(worker, GPUSHARE_E_NOT_FOUND, "was removed");
		if (stream_is_ready(worker->stream, 0)) /* the puller has gone */
			return GPUSHARE_E_CANCELLED;
		if (tool_now_ms() - worker->said_ms > ALIVE_MS)
			say_alive(worker);
	}
	if (!status && !gpushare_stat(worker->session, has->name, &now) &&
	    now.generation == worker->info.generation)
		worker->info = now; /* its tags may have changed */
	return status;
}

static bool open_buffer(struct worker *worker, const gpushare_node_Open *ask)
{
	gpushare_node_Opened *opened = &worker->answer.body.opened;
	int status = open_session(worker);

	if (worker->buffer && (!ask->generation || strcmp(ask->name, worker->info.name) != 0))
		return refuse(worker, GPUSHARE_E_INVALID, "another buffer is open");
	if (!status && !worker->buffer)
		status = attach(worker, ask->name);
	if (!status && ask->generation)
		status = wait_for_next(worker, ask);
	if (!status && (worker->info.sequence || ask->generation))
		status = take_publication(worker);
	if (status) {
		if (!*worker->why)
			snprintf(worker->why, sizeof(worker->why), "%s", gpushare_explain());
		detach(worker); /* before the answer: the publisher waits for us */
		return refuse_call(worker, status);
	}
	worker->answer.which_body = gpushare_node_Answer_opened_tag;
	opened->has_buffer = true;
	message_put_info(&worker->info, &opened->buffer);
	worker->unread = true;
	return send_answer(worker);
}

static bool connect_ucx(struct worker *worker, const gpushare_node_Connect *ask)
{
	char why[NODES_WHY_MAX] = "it sends no bytes by UCX on this network";
	bool good;

	ucx_close(worker->ucx);
	worker->ucx = worker->interface ? ucx_open(worker->interface, why) : NULL;
	good = worker->ucx && ucx_connect(worker->ucx, ask->address.bytes, ask->token, why);
	if (good) {
		ucx_start(worker->ucx, 0, "", 1);
		good = ucx_finish(worker->ucx, STDIN_FILENO, UCX_CONNECT_MS);
		strcpy(why, "it can't reach this host by UCX");
	}
	if (good)
		return send_hello(worker);
	ucx_close(worker->ucx);
	worker->ucx = NULL;
	return refuse(worker, GPUSHARE_E_NOT_SUPPORTED, why);
}

/* Send a Bytes message and its part. If the part goes by UCX, ucx_start() has sent it: send the
 * Bytes message when the part has arrived. */
static bool send_part(struct worker *worker, const uint8_t *from, uint32_t part)
{
	worker->answer.body.bytes.length = part;
	worker->taken += part;
	if (worker->by_ucx)
		return ucx_finish(worker->ucx, STDIN_FILENO, NODE_SILENCE_MS) &&
		       send_answer(worker);
	return send_answer(worker) && !stream_send(worker->stream, from, part);
}

/* The callback of gpushare_read(): send the bytes in parts. UCX sends up to UCX_PARTS_MAX parts at
 * the same time. */
static int send_parts(const void *data, size_t size, void *user)
{
	struct worker *worker = user;
	uint64_t begin = worker->taken, end = begin + size, at = begin;
	const uint8_t *from = data;
	uint32_t part;

	worker->answer.which_body = gpushare_node_Answer_bytes_tag;
	for (int sending = 0; worker->taken < end; sending -= worker->by_ucx) {
		for (; worker->by_ucx && sending < UCX_PARTS_MAX && at < end; sending++) {
			part = message_part(at, end - at);
			ucx_start(worker->ucx, at, from + (at - begin), part);
			at += part;
		}
		part = message_part(worker->taken, end - worker->taken);
		if (!send_part(worker, from + (worker->taken - begin), part))
			return 1;
	}
	return 0;
}

static bool fetch(struct worker *worker, const gpushare_node_Fetch *ask)
{
	int status;

	if (!worker->buffer)
		return refuse(worker, GPUSHARE_E_INVALID, "no buffer is open");
	if (ask->by_ucx && !worker->ucx)
		return refuse(worker, GPUSHARE_E_INVALID,
			      "bytes are wanted by UCX, which this connection doesn't use");
	worker->by_ucx = ask->by_ucx;
	worker->taken = 0;
	if (worker->copy)
		return !send_parts(worker->copy, worker->info.size, worker);
	status = gpushare_read(worker->buffer, 0, worker->info.size, send_parts, worker);
	if (status == GPUSHARE_E_CANCELLED)
		return false;
	return !status || refuse_call(worker, status);
}

static bool close_buffer(struct worker *worker)
{
	struct gpushare_info now = {.generation = 0};

	if (!worker->buffer)
		return refuse(worker, GPUSHARE_E_INVALID, "no buffer is open");
	if (gpushare_stat(worker->session, worker->info.name, &now))
		now = (struct gpushare_info){.generation = 0};
	worker->answer.which_body = gpushare_node_Answer_closed_tag;
	worker->answer.body.closed.generation = now.generation;
	worker->answer.body.closed.sequence = worker->copy ? worker->info.sequence : now.sequence;
	detach(worker);
	return send_answer(worker);
}

/* While a puller allocates memory, send Hellos, because a silent connection would be closed. */
static bool wait_for_ask(struct worker *worker)
{
	for (int i = 0; worker->unread && i < ALIVE_MAX; i++) {
		if (stream_is_ready(worker->stream, ALIVE_MS))
			break;
		memset(&worker->answer, 0, sizeof(worker->answer));
		if (!send_hello(worker))
			return false;
	}
	worker->unread = false;
	return true;
}

/* Tell the node, once, that the peer has completed the handshake. */
static void tell_node(struct worker *worker)
{
	const int yes = 1;

	if (!worker->told)
		setsockopt(STDIN_FILENO, SOL_SOCKET, NODE_SPOKE, &yes, sizeof(yes));
	worker->told = true;
}

/* Serve one request. False: the connection has ended, or should end. */
static bool serve_one(struct worker *worker)
{
	uint8_t header[NODE_HEADER_SIZE];
	node_ask ask;
	size_t size;

	if (!wait_for_ask(worker) || stream_receive(worker->stream, header, sizeof(header)) ||
	    !message_size(header, &size) || stream_receive(worker->stream, worker->message, size) ||
	    !message_read_ask(worker->message, size, &ask))
		return false;
	tell_node(worker);
	if (*worker->refusal) {
		refuse(worker, GPUSHARE_E_LIMIT, worker->refusal);
		return false;
	}
	memset(&worker->answer, 0, sizeof(worker->answer));
	*worker->why = '\0';
	switch (ask.which_verb) {
	case gpushare_node_Ask_hello_tag:
		return hello(worker, &ask.verb.hello);
	case gpushare_node_Ask_list_tag:
		return list(worker, &ask.verb.list);
	case gpushare_node_Ask_open_tag:
		return open_buffer(worker, &ask.verb.open);
	case gpushare_node_Ask_close_tag:
		return close_buffer(worker);
	case gpushare_node_Ask_connect_tag:
		return connect_ucx(worker, &ask.verb.connect);
	case gpushare_node_Ask_fetch_tag:
		return fetch(worker, &ask.verb.fetch);
	}
	return false;
}

/* The copy of a publication may fill the host's memory. If so, let the kernel kill this process
 * rather than the publisher. */
static void be_first_without_memory(void)
{
	FILE *score = fopen("/proc/self/oom_score_adj", "we");

	if (score) {
		fputs("1000", score);
		fclose(score);
	}
}

/* argv: registry's directory, interface for UCX, folder of TLS files, refusal; each may be "". */
int node_worker(int argc, char **argv)
{
	struct worker *worker = argc == 5 ? calloc(1, sizeof(*worker)) : NULL;
	char why[NODES_WHY_MAX];

	tool_name = NODE_WORKER;
	prctl(PR_SET_NAME, NODE_WORKER); /* else the process would be called "exe" */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!worker)
		return TOOL_FAILED;
	worker->directory = *argv[1] ? argv[1] : NULL;
	worker->interface = *argv[2] ? argv[2] : NULL;
	worker->stream = stream_of(STDIN_FILENO, *argv[3] ? argv[3] : NULL, why);
	if (!worker->stream)
		tool_error("%s", why);
	worker->refusal = argv[4];
	be_first_without_memory();
	while (worker->stream && serve_one(worker))
		;
	/* before the session is closed: UCX may still read memory that the session has pinned */
	ucx_close(worker->ucx);
	gpushare_close(worker->session);
	stream_free(worker->stream);
	free(worker);
	return TOOL_DONE;
}
