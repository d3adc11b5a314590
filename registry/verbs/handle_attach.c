/* SPDX-License-Identifier: MIT */
/* Handlers of lookup, attach, detach and holders. */
#include <inttypes.h>
#include <string.h>

#include "verbs/call.h"

#define PAGE (sizeof(((gpushare_HoldersReply *)0)->holders) / sizeof(gpushare_Holder))

/* Wait for the name. If the request doesn't wait, explain why the name is missing. */
static int await_name(const struct call *call)
{
	int status;

	if (!handle_wait_ms(call->ask))
		return explain_missing(call, GPUSHARE_E_NOT_FOUND);
	status = check_limit(call, call->session->user, LIMIT_waiters, 1);
	return status ? status : HANDLE_WAIT;
}

int handle_lookup(struct call *call)
{
	const gpushare_Lookup *lookup = &call->ask->verb.lookup;
	gpushare_LookupReply *body = &call->answer->body.lookup;
	uint64_t generation = lookup->generation;
	const struct entry *entry = call_find(call, generation);

	if (!generation && (!entry || (entry->info.missing && handle_wait_ms(call->ask))))
		return await_name(call);
	if (!entry && buffer_has_gone(call->state, call->name, generation))
		return explain_other(call, generation);
	/* If `entry` is NULL here, a client may still bring that generation back after a
	 * restart. */
	body->has_buffer = entry != NULL;
	if (entry)
		registry_describe(call->registry, call->session, entry, &body->buffer);
	return GPUSHARE_OK;
}

/* Check that the buffer is of the kind that the peer asks for, memory or event. */
static int check_kind(const struct call *call, const struct entry *entry)
{
	bool event = call->ask->verb.attach.event;

	if ((entry->info.backing == GPUSHARE_BACKING_EVENT) != event)
		return refuse(call, GPUSHARE_E_INVALID,
			      event ? "\"%s\" is a buffer, not an event; attach it with "
				      "gpushare_attach()"
				    : "\"%s\" is an event, not a buffer; open it with "
				      "gpushare_event_open()",
			      entry->name);
	return GPUSHARE_OK;
}

int handle_attach(struct call *call)
{
	struct registry *registry = call->registry;
	struct session *session = call->session;
	struct entry *entry = call_find(call, 0);
	gpushare_AttachReply *body = &call->answer->body.attach;
	const struct attachment *had;
	int status;

	if (!entry || entry->info.missing)
		return explain_missing(call, GPUSHARE_E_NOT_FOUND);
	status = check_limit(call, session->user, LIMIT_attachments, 1);
	if (!status)
		status = check_kind(call, entry);
	if (!status)
		status =
		    check_attach(call, entry, call->ask->verb.attach.read_only, &body->read_only);
	if (status)
		return status;
	body->at_fds = entry->fdref && !registry->passing;
	if (body->at_fds)
		return HANDLE_ELSEWHERE;
	if (entry->fdref)
		call_give(call, entry->fdref);
	had = session_find_attachment(session, entry->info.generation);
	if (!buffer_attach(call->state, session, call->name, entry->info.generation,
			   had ? had->count + 1 : 1))
		return GPUSHARE_E_NO_MEMORY;
	body->has_buffer = true;
	body->own = entry->session && process_is_same(&session->peer, entry_owner(entry));
	registry_describe(registry, session, entry, &body->buffer);
	memcpy(body->handle, entry->handle, sizeof(body->handle));
	call_log(call, "attach", "\"%s\"", call->name);
	return GPUSHARE_OK;
}

int handle_detach(struct call *call)
{
	uint64_t generation = call->ask->verb.detach.generation;
	struct attachment *attachment = session_find_attachment(call->session, generation);

	if (!attachment)
		return refuse(call, GPUSHARE_E_NOT_FOUND,
			      "this connection has not attached \"%s\", generation %" PRIu64,
			      call->name, generation);
	buffer_attach(call->state, call->session, call->name, generation, attachment->count - 1);
	call_log(call, "detach", "\"%s\"", call->name);
	return GPUSHARE_OK;
}

/* Insert a holder, ordered by connection. A full page drops its last one. */
static void page_insert(gpushare_HoldersReply *page, const struct session *session,
			const struct attachment *attachment)
{
	pb_size_t at = 0;

	while (at < page->holders_count && page->holders[at].connection < session->id)
		at++;
	if (page->holders_count == PAGE)
		page->more = true;
	else
		page->holders_count++;
	if (at == PAGE)
		return;
	memmove(&page->holders[at + 1], &page->holders[at],
		(page->holders_count - at - 1u) * sizeof(*page->holders));
	page->holders[at] = (gpushare_Holder){
	    .connection = session->id,
	    .pid = session->peer.pid,
	    .uid = session->peer.uid,
	    .started = session->peer.started,
	    .count = attachment->count,
	    .own = attachment->own,
	};
	strcpy(page->holders[at].command, session->peer.command);
}

int handle_holders(struct call *call)
{
	const gpushare_Holders *wanted = &call->ask->verb.holders;
	const struct entry *entry = call_find(call, wanted->generation);
	const struct attachment *attachment;

	if (!entry)
		return explain_other(call, wanted->generation);
	for (const struct session *each = call->state->sessions.by_id; each; each = each->hh.next) {
		attachment = session_find_attachment(each, entry->info.generation);
		if (attachment && each->id > wanted->after)
			page_insert(&call->answer->body.holders, each, attachment);
	}
	return GPUSHARE_OK;
}
