// SPDX-License-Identifier: MIT
/* The registry: over its socket by the library's client and by nng's, and by its index. */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "client/client.h"

static bool says(int status, const char *why)
{
	if (status)
		fprintf(stderr, "%s\n", why);
	return !status;
}

bool ask_registry_open(struct asker *asker)
{
	asker->client = client_new(&(struct client_options){.who = "bench", .timeout_ms = 60000});
	return asker->client && says(client_connect(asker->client), asker->client->why);
}

bool ask_registry(struct asker *asker, const char *name)
{
	struct client *client = asker->client;

	client->request.which_verb = gpushare_Request_lookup_tag;
	client->request.verb.lookup = (gpushare_Lookup){0};
	strcpy(client->request.verb.lookup.name, name);
	return says(client_call(client, 0), client->why) &&
	       !strcmp(client->reply.body.lookup.buffer.name, name);
}

/* Send one request and receive its answer with nng's own client. */
static bool nng_asks(struct asker *asker, const request *what, reply *out_answer)
{
	nng_socket socket = {.id = asker->id};
	nng_msg *message = NULL;
	size_t size;
	int fault = codec_encode_request(what, asker->wire, sizeof(asker->wire), &size);
	bool answered;

	if (fault || nng_msg_alloc(&message, 0))
		return false;
	fault = nng_msg_append(message, asker->wire, size);
	if (!fault)
		fault = nng_sendmsg(socket, message, 0);
	if (fault)
		nng_msg_free(message);
	else
		fault = nng_recvmsg(socket, &message, 0);
	if (fault) {
		fprintf(stderr, "nng: %s\n", nng_strerror(fault));
		return false;
	}
	answered = !codec_decode_reply(nng_msg_body(message), nng_msg_len(message), out_answer) &&
		   !out_answer->status;
	nng_msg_free(message);
	return answered;
}

bool ask_nng_open(struct asker *asker)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};
	static reply answer;
	nng_socket socket;
	char url[300];
	int fault;

	snprintf(url, sizeof(url), "ipc://%s", ask_path(GPUSHARE_SOCKET));
	fault = nng_req0_open(&socket);
	if (!fault)
		fault = nng_dial(socket, url, NULL, 0);
	if (fault) {
		fprintf(stderr, "%s: %s\n", url, nng_strerror(fault));
		return false;
	}
	asker->id = socket.id;
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	strcpy(hello.verb.hello.client, "bench");
	return nng_asks(asker, &hello, &answer);
}

bool ask_nng(struct asker *asker, const char *name)
{
	static request what;
	static reply answer;

	what.which_verb = gpushare_Request_lookup_tag;
	what.verb.lookup = (gpushare_Lookup){0};
	strcpy(what.verb.lookup.name, name);
	return nng_asks(asker, &what, &answer) && !strcmp(answer.body.lookup.buffer.name, name);
}

bool ask_index_open(struct asker *asker)
{
	return says(gpushare_open(NULL, &asker->session), gpushare_explain());
}

bool ask_index(struct asker *asker, const char *name)
{
	struct gpushare_info info;

	return says(gpushare_stat(asker->session, name, &info), gpushare_explain()) &&
	       !strcmp(info.name, name);
}

bool ask_share(struct asker *asker, const char *name)
{
	gpushare_Share *share = &asker->client->request.verb.share;

	asker->client->request = (request){.which_verb = gpushare_Request_share_tag};
	share->has_buffer = true;
	share->buffer.size = 1 << 20;
	share->buffer.base_size = 2 << 20;
	share->buffer.backing = GPUSHARE_BACKING_IPC;
	share->buffer.address = 0x7f0000000000;
	strcpy(share->buffer.name, name);
	memset(share->buffer.device_uuid, 0xd, sizeof(share->buffer.device_uuid));
	memset(share->handle, 0xc3, sizeof(share->handle));
	return says(client_call(asker->client, 0), asker->client->why);
}

/* Share a name for this client alone. */
bool ask_descriptor_open(struct asker *asker)
{
	if (!ask_registry_open(asker))
		return false;
	snprintf(asker->own, sizeof(asker->own), "ordered%d", (int)getpid());
	if (!ask_share(asker, asker->own))
		return false;
	asker->own_generation = asker->client->reply.body.share.generation;
	return true;
}

bool ask_descriptor(struct asker *asker, const char *name)
{
	struct client *client = asker->client;
	int came = -1;

	client->request = (request){.which_verb = gpushare_Request_order_tag};
	strcpy(client->request.verb.order.name, asker->own);
	client->request.verb.order.generation = asker->own_generation;
	if (!client_call(client, 0))
		came = client_take_fd(client);
	if (came < 0)
		fprintf(stderr, "%s\n", client->why);
	else
		close(came);
	return came >= 0;
}
