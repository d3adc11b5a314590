/* SPDX-License-Identifier: MIT */
/*
 * Late answers. The caller was told that its request failed, so what the registry did must be
 * undone. A late Withdraw or Detach is not undone: its caller counts the buffer as given back.
 */
#include <string.h>

#include "client_internal.h"

bool client_is_late(const struct client *client)
{
	return client->late.verb != 0;
}

void client_note_late(struct client *client, const request *question, uint32_t id)
{
	const gpushare_Share *share = &question->verb.share;
	struct client_late *late = &client->late;
	const char *name = request_name(question);

	*late = (struct client_late){.verb = question->which_verb, .id = id};
	if (late->verb == gpushare_Request_share_tag) {
		late->adopts = share->adopt;
		late->stands = share->again || (client->shares_late && !share->adopt);
	}
	memcpy(late->name, name, strnlen(name, sizeof(late->name) - 1));
}

/* Make the request that undoes the one whose answer came late. False: there is nothing to undo. */
static bool reverse(const struct client_late *late, const reply *answer, request *out)
{
	const gpushare_ShareReply *shared = &answer->body.share;
	const gpushare_AttachReply *attached = &answer->body.attach;

	memset(out, 0, sizeof(*out));
	if (answer->status != GPUSHARE_OK || late->stands)
		return false;
	if (answer->which_body == gpushare_Reply_share_tag && !shared->at_fds) {
		out->which_verb = gpushare_Request_withdraw_tag;
		memcpy(out->verb.withdraw.name, late->name, sizeof(late->name));
		out->verb.withdraw.generation = shared->generation;
		out->verb.withdraw.unused = !late->adopts;
		return true;
	}
	if (answer->which_body == gpushare_Reply_attach_tag) {
		out->which_verb = gpushare_Request_detach_tag;
		memcpy(out->verb.detach.name, late->name, sizeof(late->name));
		out->verb.detach.generation = attached->buffer.generation;
		return true;
	}
	return false;
}

void client_undo(struct client *client)
{
	bool undoes = reverse(&client->late, &client->reply, &client->own);

	client->late.verb = 0;
	if (undoes && !client_post(client, &client->own))
		client_tell_anew(client);
}
