/* SPDX-License-Identifier: MIT */
/* The puller's side of a transfer, by the stream or by UCX. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "pull.h"

/* Have the node connect to this worker, and wait for the byte that tests the connection. */
static bool connect_node(struct peer *peer, struct ucx *ucx)
{
	static uint8_t byte; /* static, because it may come late */
	uint8_t token[NODE_TOKEN_SIZE];
	const void *address;
	size_t size;

	snprintf(peer->why, sizeof(peer->why), "node '%s': its test byte did not come by UCX",
		 peer->node->name);
	if (getrandom(token, sizeof(token), 0) != sizeof(token) ||
	    !ucx_listen(ucx, token, &address, &size))
		return false;
	ucx_expect(ucx, 0, &byte, sizeof(byte));
	return !peer_connect(peer, address, size, token) && ucx_wait(ucx, UCX_CONNECT_MS);
}

struct ucx *fetch_open(struct peer *peer, const char *interface)
{
	char why[UCX_WHY_MAX] = "", far[ADDRESS_MAX];
	const char *version = ucx_version(why);
	struct ucx *ucx = NULL;

	if (!version)
		;
	else if (!stream_is_by(stream_fd(peer->stream), interface, far))
		snprintf(why, sizeof(why), "'%.64s' is not the interface to the node", interface);
	else if (!*peer->ucx)
		snprintf(why, sizeof(why), "the node offers no UCX");
	else if (strcmp(peer->ucx, version) != 0)
		snprintf(why, sizeof(why), "the node has UCX %s, this host %s", peer->ucx, version);
	else
		ucx = ucx_open(interface, why);
	if (ucx && connect_node(peer, ucx))
		return ucx;
	ucx_close(ucx);
	if (*why)
		tool_error("node '%s': the stream is used, not UCX: %s", peer->node->name, why);
	else
		tool_error("%s; the stream is used, not UCX", peer->why);
	return NULL;
}

int fetch_some(struct peer *peer, uint64_t offset, void *to, size_t size, struct progress *progress)
{
	int status;

	if (peer->worker)
		ucx_expect(peer->worker, offset, to, size);
	status = offset ? GPUSHARE_OK : peer_send_fetch(peer);
	for (uint8_t *at = to, *end = at + size; !status && at < end;) {
		uint32_t part = message_part(offset, (uint64_t)(end - at));

		status = peer_receive_part(peer, part);
		if (!status && !peer->worker)
			status = peer_receive(peer, at, part);
		if (!status)
			progress_add(progress, part);
		offset += part;
		at += part;
	}
	if (!status && peer->worker && !ucx_wait(peer->worker, NODE_SILENCE_MS)) {
		snprintf(peer->why, sizeof(peer->why), "node '%s': its bytes did not come by UCX",
			 peer->node->name);
		status = GPUSHARE_E_TIMED_OUT;
	}
	if (status) { /* UCX may still write to `to` */
		ucx_close(peer->worker);
		peer->worker = NULL;
	}
	return status;
}
