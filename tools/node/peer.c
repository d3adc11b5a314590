/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/tool.h"
#include "ucx.h"

static int fail(struct peer *peer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(struct peer *peer, int status, const char *format, ...)
{
	int used = snprintf(peer->why, sizeof(peer->why), "node '%s': ", peer->node->name);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(peer->why + used, sizeof(peer->why) - (size_t)used, format, arguments);
	va_end(arguments);
	return status;
}

static int fail_stream(struct peer *peer, int error)
{
	return fail(peer, error == ETIMEDOUT ? GPUSHARE_E_TIMED_OUT : GPUSHARE_E_IO, "%s",
		    stream_error_text(error));
}

static int receive(struct peer *peer, void *to, size_t size)
{
	int error = stream_receive(peer->stream, to, size);

	return error ? fail_stream(peer, error) : GPUSHARE_OK;
}

static int send_ask(struct peer *peer, const node_ask *ask)
{
	size_t size = message_write_ask(ask, peer->message);
	int error = size ? stream_send(peer->stream, peer->message, size) : 0;

	if (!size)
		return fail(peer, GPUSHARE_E_INVALID, "a field of the request is too long");
	return error ? fail_stream(peer, error) : GPUSHARE_OK;
}

static int receive_any(struct peer *peer)
{
	uint8_t header[NODE_HEADER_SIZE];
	size_t size = 0;
	int status;

	if (peer->worker && !stream_is_ready(peer->stream, 0)) {
		/* the node may wait until this host has received by UCX */
		(void)ucx_receive(peer->worker, stream_fd(peer->stream), NODE_SILENCE_MS);
		if (!stream_is_ready(peer->stream, 0))
			return fail_stream(peer, ETIMEDOUT);
	}
	status = receive(peer, header, sizeof(header));
	if (!status && message_size(header, &size))
		status = receive(peer, peer->message, size);
	if (status)
		return status;
	if (!size || size > NODE_MESSAGE_MAX ||
	    !message_read_answer(peer->message, size, peer->answer))
		return fail(peer, GPUSHARE_E_PROTOCOL, "its answer makes no sense");
	return GPUSHARE_OK;
}

/* Receive an answer with that body. Skip Hellos before an Opened or a Bytes: they only say that the
 * node is alive. */
static int receive_answer(struct peer *peer, pb_size_t body)
{
	bool waits =
	    body == gpushare_node_Answer_opened_tag || body == gpushare_node_Answer_bytes_tag;
	int status;

	do
		status = receive_any(peer);
	while (waits && !status && peer->answer->which_body == gpushare_node_Answer_hello_tag);
	if (status)
		return status;
	if (!peer->answer->status && peer->answer->which_body != body)
		return fail(peer, GPUSHARE_E_PROTOCOL, "its answer makes no sense");
	if (!peer->answer->status)
		return GPUSHARE_OK;
	tool_printable(peer->answer->message, peer->answer->message, sizeof(peer->answer->message));
	return fail(peer, peer->answer->status, "%s",
		    *peer->answer->message ? peer->answer->message
					   : gpushare_status_text(peer->answer->status));
}

static int ask(struct peer *peer, const node_ask *question, pb_size_t body)
{
	int status = send_ask(peer, question);

	return status ? status : receive_answer(peer, body);
}

int peer_hello(struct peer *peer)
{
	node_ask question = {.which_verb = gpushare_node_Ask_hello_tag,
			     .verb.hello = {.protocol = NODE_PROTOCOL}};
	int status;

	strcpy(question.verb.hello.version, GPUSHARE_VERSION);
	status = ask(peer, &question, gpushare_node_Answer_hello_tag);
	if (status)
		return status;
	tool_printable(peer->answer->body.hello.version, peer->version, sizeof(peer->version));
	strcpy(peer->place, peer->answer->body.hello.place);
	strcpy(peer->directory, peer->answer->body.hello.directory);
	tool_printable(peer->answer->body.hello.ucx, peer->ucx, sizeof(peer->ucx));
	return GPUSHARE_OK;
}

int peer_open(struct peer *peer, const struct node *node, const char *folder)
{
	char standard[PATH_MAX] = "", why[NODES_WHY_MAX];
	struct address address = node->address;
	size_t used;
	int status;

	*peer = (struct peer){.node = node};
	peer->answer = malloc(sizeof(*peer->answer));
	peer->message = malloc(NODE_HEADER_SIZE + NODE_MESSAGE_MAX);
	if (!peer->answer || !peer->message)
		return fail(peer, GPUSHARE_E_NO_MEMORY, "out of memory");
	if (!folder) {
		nodes_folder(standard);
		folder = standard;
	}
	if (address_look_up(&address, why))
		peer->stream = stream_dial(&address, folder, why);
	if (!peer->stream)
		return fail(peer, GPUSHARE_E_IO, "%s", why);
	status = peer_hello(peer);
	used = strlen(peer->why);
	if (status == GPUSHARE_E_IO && node->address.tls)
		/* a side that rejects a certificate ends the handshake without giving a reason */
		snprintf(peer->why + used, sizeof(peer->why) - used,
			 " during the TLS handshake; check that the CA of %s/ca.pem signed both "
			 "certificates, the node's for 'gpushare', and that both are valid today",
			 folder);
	return status;
}

/* Check the next name that a node lists. The node isn't trusted: accept only names that `glob`
 * matches, each once. */
static int check_listed(struct peer *peer, const char *glob, const char *before, const char *name)
{
	if (glob && *glob && fnmatch(glob, name, 0) != 0)
		return fail(peer, GPUSHARE_E_PROTOCOL, "it lists '%s', which doesn't match '%s'",
			    name, glob);
	if (strcmp(before, name) >= 0)
		return fail(peer, GPUSHARE_E_PROTOCOL, "it lists '%s' twice or out of order", name);
	return GPUSHARE_OK;
}

bool node_infos_add(struct node_infos *infos, const struct gpushare_info *info)
{
	if (infos->count == infos->room) {
		size_t room = infos->room ? 2 * infos->room : 16;
		void *more = reallocarray(infos->list, room, sizeof(*info));

		if (!more)
			return false;
		infos->list = more;
		infos->room = room;
	}
	infos->list[infos->count++] = *info;
	return true;
}

int peer_list(struct peer *peer, const char *glob, struct node_infos *infos)
{
	node_ask question = {.which_verb = gpushare_node_Ask_list_tag};
	const gpushare_node_Page *page = &peer->answer->body.page;
	struct gpushare_info info = {.name = ""};
	char before[sizeof(info.name)];
	size_t count = 0;
	int status;

	if (glob && strlen(glob) >= sizeof(question.verb.list.glob))
		return fail(peer, GPUSHARE_E_INVALID, "the pattern is too long");
	strcpy(question.verb.list.glob, glob ? glob : "");
	status = ask(peer, &question, gpushare_node_Answer_page_tag);
	while (!status) {
		for (pb_size_t i = 0; i < page->buffers_count; i++) {
			strcpy(before, info.name);
			codec_read_info(&page->buffers[i], &info);
			status = check_listed(peer, glob, before, info.name);
			if (status)
				return status;
			if (!node_infos_add(infos, &info))
				return fail(peer, GPUSHARE_E_NO_MEMORY, "out of memory");
		}
		count += page->buffers_count;
		if (count > NODE_LIST_MAX)
			return fail(peer, GPUSHARE_E_LIMIT,
				    "it lists more than %d buffers; a narrower pattern may help",
				    NODE_LIST_MAX);
		if (page->last)
			return GPUSHARE_OK;
		if (!page->buffers_count)
			return fail(peer, GPUSHARE_E_PROTOCOL, "it sent an empty page");
		status = receive_answer(peer, gpushare_node_Answer_page_tag);
	}
	return status;
}

int peer_begin(struct peer *peer, const char *name, const struct gpushare_info *after,
	       struct gpushare_info *out_info)
{
	node_ask question = {.which_verb = gpushare_node_Ask_open_tag};
	const gpushare_node_Opened *opened = &peer->answer->body.opened;
	int status;

	strcpy(question.verb.open.name, name);
	if (after) {
		question.verb.open.generation = after->generation;
		question.verb.open.sequence = after->sequence;
	}
	status = ask(peer, &question, gpushare_node_Answer_opened_tag);
	if (status)
		return status;
	if (strcmp(opened->buffer.name, name) != 0)
		return fail(peer, GPUSHARE_E_PROTOCOL, "it opened another buffer than '%s'", name);
	codec_read_info(&opened->buffer, out_info);
	return GPUSHARE_OK;
}

/* Send the node the address of our UCX worker, and wait for the byte that tests the connection. */
static int connect_node(struct peer *peer)
{
	static uint8_t byte; /* static, because UCX may write it after a timeout */
	node_ask question = {.which_verb = gpushare_node_Ask_connect_tag};
	gpushare_node_Connect *to = &question.verb.connect;
	const void *address;
	size_t size;
	int status;

	if (getrandom(to->token, sizeof(to->token), 0) != sizeof(to->token) ||
	    !ucx_listen(peer->worker, to->token, &address, &size) ||
	    size > sizeof(to->address.bytes))
		return fail(peer, GPUSHARE_E_LIMIT,
			    "UCX on this host has no address that the node could send to");
	memcpy(to->address.bytes, address, size);
	to->address.size = (pb_size_t)size;
	ucx_expect(peer->worker, 0, &byte, sizeof(byte));
	status = ask(peer, &question, gpushare_node_Answer_hello_tag);
	if (!status && !ucx_receive(peer->worker, -1, UCX_CONNECT_MS))
		return fail(peer, GPUSHARE_E_TIMED_OUT, "its test byte did not come by UCX");
	return status;
}

/* After a failure, UCX may still write to the memory of peer_fetch(): close the UCX worker. */
static void close_ucx(struct peer *peer)
{
	ucx_close(peer->worker);
	peer->worker = NULL;
}

void peer_use_ucx(struct peer *peer, const char *interface)
{
	char why[NODES_WHY_MAX] = "", far[ADDRESS_MAX];
	const char *version = ucx_version(why);

	if (!version)
		;
	else if (!stream_is_by(stream_fd(peer->stream), interface, far))
		nodes_refuse(why, "'%.64s' is not the interface to the node", interface);
	else if (!*peer->ucx)
		nodes_refuse(why, "the node offers no UCX");
	else if (strcmp(peer->ucx, version) != 0)
		nodes_refuse(why, "the node has UCX %s, this host %s", peer->ucx, version);
	else
		peer->worker = ucx_open(interface, why);
	if (peer->worker && !connect_node(peer))
		return;
	close_ucx(peer);
	if (*why)
		tool_error("node '%s': the stream is used, not UCX: %s", peer->node->name, why);
	else
		tool_error("%s; the stream is used, not UCX", peer->why);
}

/* Receive the Bytes message of one part; then, unless it comes by UCX, the part itself to `to`. */
static int receive_part(struct peer *peer, void *to, uint32_t length)
{
	int status = receive_answer(peer, gpushare_node_Answer_bytes_tag);

	if (!status && peer->answer->body.bytes.length != length)
		return fail(peer, GPUSHARE_E_PROTOCOL, "it sent parts of another size");
	return status || peer->worker ? status : receive(peer, to, length);
}

int peer_fetch(struct peer *peer, uint64_t offset, void *to, size_t size, struct progress *progress)
{
	const node_ask question = {.which_verb = gpushare_node_Ask_fetch_tag,
				   .verb.fetch.by_ucx = peer->worker != NULL};
	int status;

	if (peer->worker)
		ucx_expect(peer->worker, offset, to, size);
	status = offset ? GPUSHARE_OK : send_ask(peer, &question);
	for (uint8_t *at = to, *end = at + size; !status && at < end;) {
		uint32_t part = message_part(offset, (uint64_t)(end - at));

		status = receive_part(peer, at, part);
		if (!status)
			progress_add(progress, part);
		offset += part;
		at += part;
	}
	if (!status && peer->worker && !ucx_receive(peer->worker, -1, NODE_SILENCE_MS))
		status = fail(peer, GPUSHARE_E_TIMED_OUT, "its bytes did not come by UCX");
	if (status)
		close_ucx(peer);
	return status;
}

int peer_end(struct peer *peer, const struct gpushare_info *info, bool *out_same)
{
	node_ask question = {.which_verb = gpushare_node_Ask_close_tag};
	int status = ask(peer, &question, gpushare_node_Answer_closed_tag);

	if (!status)
		*out_same = peer->answer->body.closed.generation == info->generation &&
			    peer->answer->body.closed.sequence == info->sequence;
	return status;
}

void peer_close(struct peer *peer)
{
	ucx_close(peer->worker);
	stream_free(peer->stream);
	free(peer->answer);
	free(peer->message);
	*peer = (struct peer){.node = peer->node};
}
