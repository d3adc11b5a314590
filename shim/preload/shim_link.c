/* SPDX-License-Identifier: MIT */
#include "shim_link.h"

#include <poll.h>
#include <string.h>

#include "base/monotonic.h"
#include "shim_line.h"
#include "shim_live.h"
#include "shim_state.h"

#define REACH_MS 100 /* time limit of a call to a registry that client_probe() has found running */
#define RETRY_MS 100 /* between two tries to attach while no registry answers */

/* Return true if the request was sent, but not answered: the registry may have carried it out. */
static bool is_unanswered(int status)
{
	return status != GPUSHARE_OK && line.client->asked && client_is_silent(line.client);
}

/* Fill in `share`, which must be zeroed. The texts fit: they come from arrays of the same size. */
static void describe(gpushare_Share *share, const struct memory *what)
{
	record *buffer = &share->buffer;

	share->has_buffer = true;
	strcpy(buffer->name, what->name);
	buffer->address = what->address;
	buffer->size = what->size;
	buffer->base_offset = what->base_offset;
	buffer->base_size = what->base_size;
	buffer->backing = what->backing;
	buffer->flags = what->flags;
	buffer->ttl_s = what->ttl_s;
	memcpy(buffer->device_uuid, what->device_uuid, sizeof(buffer->device_uuid));
	share->mode = what->mode;
	strcpy(share->group, what->group);
	share->again = what->again;
	share->orphan = what->orphan;
	if (what->fd < 0 && what->handle)
		memcpy(share->handle, what->handle, GPUSHARE_HANDLE_SIZE);
	line.client->goes = what->fd;
}

int link_share(const struct memory *what, int64_t until_ms, uint64_t *out_generation,
	       unsigned int *out_reading, char *why, size_t why_size)
{
	int status = line_enter_by(until_ms, why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	describe(&line_ask(gpushare_Request_share_tag)->verb.share, what);
	status = line_call(why, why_size);
	if (is_unanswered(status)) {
		client_tell_anew(line.client);
		status = GPUSHARE_E_NOT_READY;
	}
	if (status == GPUSHARE_OK)
		*out_generation = line.client->reply.body.share.generation;
	*out_reading = resync_readings(&live_resync);
	line_leave();
	return status;
}

/* Send the withdraw or detach of line_ask(). If no connection was ever made, send nothing: a
 * registry that starts later learns from the resync which buffers are left. */
static int give_back(char *why, size_t why_size)
{
	return line.client->connections ? line_give_back(why, why_size) : GPUSHARE_OK;
}

int link_adopt(const struct memory *what, record *out_record, int *out_fd,
	       unsigned int *out_reading, char *why, size_t why_size)
{
	int status = line_enter(why, why_size);
	gpushare_Share *share;

	if (status != GPUSHARE_OK)
		return status;
	share = &line_ask(gpushare_Request_share_tag)->verb.share;
	describe(share, what);
	share->adopt = true;
	status = line_call(why, why_size);
	if (status == GPUSHARE_OK) {
		*out_record = line.client->reply.body.share.buffer;
		*out_fd = client_take_fd(line.client);
	}
	*out_reading = resync_readings(&live_resync);
	line_leave();
	return status;
}

int link_attach(const char *name, bool read_only, struct link_found *out, char *why,
		size_t why_size)
{
	const gpushare_AttachReply *answer;
	gpushare_Attach *attach;
	int status = line_enter(why, why_size);

	out->fd = -1;
	if (status != GPUSHARE_OK)
		return status;
	attach = &line_ask(gpushare_Request_attach_tag)->verb.attach;
	strcpy(attach->name, name);
	attach->read_only = read_only;
	status = line_call(why, why_size);
	if (status == GPUSHARE_OK) {
		answer = &line.client->reply.body.attach;
		out->what = answer->buffer;
		out->read_only = answer->read_only || answer->buffer.flags & GPUSHARE_FLAG_READONLY;
		out->own = answer->own;
		out->fd = client_take_fd(line.client);
		memcpy(out->handle, answer->handle, GPUSHARE_HANDLE_SIZE);
	}
	out->reading = resync_readings(&live_resync);
	line_leave();
	return status;
}

int link_await(const char *name, int status, int64_t until_ms, char *why, size_t why_size)
{
	int64_t left_ms = until_ms - monotonic_ms();

	if (left_ms <= 0)
		return status;
	if (status == GPUSHARE_E_NOT_FOUND) {
		const struct client_options options = {.directory = line.client->directory,
						       .who = "shim wait"};

		status = client_await_name(&options, name, (unsigned int)left_ms, why, why_size);
		if (status == GPUSHARE_E_LIMIT)
			status = GPUSHARE_OK;
		left_ms = until_ms - monotonic_ms();
	} else if (status == GPUSHARE_E_NO_REGISTRY) {
		poll(NULL, 0, left_ms < RETRY_MS ? (int)left_ms : RETRY_MS);
	}
	if (left_ms > 0 && (status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT))
		return GPUSHARE_OK;
	return status;
}

void link_settle(const char *name)
{
	gpushare_Lookup *lookup;
	char why[512];

	if (line_enter(why, sizeof(why)) != GPUSHARE_OK) {
		resync_miss(&live_resync);
		return;
	}
	lookup = &line_ask(gpushare_Request_lookup_tag)->verb.lookup;
	strcpy(lookup->name, name);
	line_call(why, sizeof(why));
	line_leave();
}

/* Search a page of the list. `after` becomes the name after which the next page begins; "": there
 * is no next page. */
static bool search(const gpushare_ListReply *page, uint64_t generation, char *after, char *out_name)
{
	for (pb_size_t i = 0; i < page->buffers_count; i++) {
		if (page->buffers[i].generation != generation)
			continue;
		strcpy(out_name, page->buffers[i].name);
		return true;
	}
	strcpy(after, page->more && strcmp(page->after, after) > 0 ? page->after : "");
	return false;
}

bool link_find(const char *glob, uint64_t generation, char out_name[GPUSHARE_NAME_MAX + 1])
{
	char after[GPUSHARE_NAME_MAX + 1] = "", why[512];
	bool found = false;
	gpushare_List *list;

	do {
		if (line_enter(why, sizeof(why)) != GPUSHARE_OK)
			return false;
		list = &line_ask(gpushare_Request_list_tag)->verb.list;
		strcpy(list->glob, glob);
		strcpy(list->after, after);
		if (line_call(why, sizeof(why)) == GPUSHARE_OK)
			found = search(&line.client->reply.body.list, generation, after, out_name);
		else
			*after = '\0';
		line_leave();
	} while (!found && *after);
	return found;
}

/* Return true if others have the buffer attached, or if that is unknown after a timeout. The
 * registry knows the attachers: once it answers again, a resync leaves the buffer out, and the
 * registry treats the buffer as freed. */
static bool is_held(int status, const reply *answer)
{
	if (status != GPUSHARE_OK)
		return status == GPUSHARE_E_TIMED_OUT;
	return answer->which_body == gpushare_Reply_withdraw_tag && answer->body.withdraw.deferred;
}

static bool may_be_held(int no_turn)
{
	return no_turn == GPUSHARE_E_TIMED_OUT ||
	       (no_turn == GPUSHARE_E_NO_REGISTRY && line_is_unanswered());
}

int link_withdraw(const char *name, uint64_t generation, bool *deferred, char *why, size_t why_size)
{
	gpushare_Withdraw *withdraw;
	int status = line_enter(why, why_size);

	if (status != GPUSHARE_OK) {
		resync_miss(&live_resync); /* the next call starts a resync */
		if (deferred)
			*deferred = may_be_held(status);
		return status;
	}
	withdraw = &line_ask(gpushare_Request_withdraw_tag)->verb.withdraw;
	strcpy(withdraw->name, name);
	withdraw->generation = generation;
	withdraw->deferred = deferred != NULL;
	status = give_back(why, why_size);
	if (deferred)
		*deferred = is_held(status, &line.client->reply);
	/* link_deferred_left() will read the page of changes without a request. */
	if (deferred && *deferred && status == GPUSHARE_OK)
		line_fetch_changes();
	line_leave();
	return status;
}

int link_detach(const char *name, uint64_t generation, unsigned int reading, char *why,
		size_t why_size)
{
	gpushare_Detach *detach;
	int status = line_enter(why, why_size);

	if (status != GPUSHARE_OK) {
		resync_miss(&live_resync);
		return status;
	}
	detach = &line_ask(gpushare_Request_detach_tag)->verb.detach;
	strcpy(detach->name, name);
	detach->generation = generation;
	/* If a resync has read the lists since `reading`, it may have left this attachment out:
	 * start another one. */
	if (resync_is_read(&live_resync, reading))
		client_tell_anew(line.client);
	status = give_back(why, why_size);
	line_leave();
	return status;
}

/* As line_enter_standing(). But if the registry needs a resync, take no turn and set *out_runs. */
static int enter_told(bool *out_runs)
{
	int status = line_enter_standing(out_runs);

	if (status != GPUSHARE_OK || !line.client->fresh)
		return status;
	line_leave();
	*out_runs = true;
	return GPUSHARE_E_TIMED_OUT;
}

void link_withdraw_later(const char *name, uint64_t generation)
{
	gpushare_Withdraw *withdraw;
	bool runs;

	if (enter_told(&runs) != GPUSHARE_OK) {
		resync_miss(&live_resync);
		return;
	}
	withdraw = &line_ask(gpushare_Request_withdraw_tag)->verb.withdraw;
	strcpy(withdraw->name, name);
	withdraw->generation = generation;
	if (!client_post(line.client, &line.client->request))
		client_tell_anew(line.client);
	line_leave();
}

bool link_detach_later(const char *name, uint64_t generation, unsigned int reading)
{
	gpushare_Detach *detach;
	bool runs, posted;
	char why[512];
	int status = enter_told(&runs);

	if (runs)
		link_detach(name, generation, reading, why, sizeof(why));
	if (runs || status != GPUSHARE_OK)
		return runs || status == GPUSHARE_E_NO_REGISTRY;
	detach = &line_ask(gpushare_Request_detach_tag)->verb.detach;
	strcpy(detach->name, name);
	detach->generation = generation;
	posted = !resync_is_read(&live_resync, reading) &&
		 client_post(line.client, &line.client->request);
	if (!posted) /* report the end by a new resync, which leaves the attachment out */
		client_tell_anew(line.client);
	line_leave();
	return true;
}

static request *ask_deferred(const uint64_t *generations, size_t count)
{
	request *question = line_ask(gpushare_Request_deferred_tag);

	memcpy(question->verb.deferred.generations, generations, count * sizeof(*generations));
	question->verb.deferred.generations_count = (pb_size_t)count;
	return question;
}

static int deferred_by(int64_t until_ms, uint64_t *generations, size_t *count)
{
	const gpushare_DeferredReply *left;
	char why[512];
	int status = line_enter_by(until_ms, why, sizeof(why));

	/* No request was sent: the registry failed a moment ago. A later call asks again. */
	if (status == GPUSHARE_E_NO_REGISTRY)
		return GPUSHARE_E_NOT_READY;
	if (status != GPUSHARE_OK)
		return status;
	ask_deferred(generations, *count);
	status = client_await_next(line.client, line_call(why, sizeof(why)));
	left = &line.client->reply.body.deferred;
	if (status == GPUSHARE_OK && line.client->reply.which_body != gpushare_Reply_deferred_tag)
		status = GPUSHARE_E_PROTOCOL;
	if (status == GPUSHARE_OK) {
		*count = left->generations_count;
		memcpy(generations, left->generations, *count * sizeof(*generations));
		line_fetch_changes();
	}
	line_leave();
	return status;
}

int link_deferred(void *unused, uint64_t generations[DEFERRED_MAX], size_t *count)
{
	(void)unused;
	return deferred_by(monotonic_ms() + state_timeout_ms(), generations, count);
}

/* Keep only the generations that nobody has attached any more, according to the page of changes.
 * Tell the registry that their memory is given back. */
static int take_left(uint64_t *generations, size_t *count)
{
	size_t left = 0;

	for (size_t i = 0; i < *count; i++)
		if (client_has_left(line.client, generations[i]))
			generations[left++] = generations[i];
	*count = left;
	if (left && !client_post(line.client, ask_deferred(generations, left)))
		return GPUSHARE_E_TIMED_OUT;
	return GPUSHARE_OK;
}

int link_deferred_left(void *unused, uint64_t generations[DEFERRED_MAX], size_t *count)
{
	bool runs;
	int status = line_enter_standing(&runs);

	(void)unused;
	if (status == GPUSHARE_OK) {
		runs = !client_has_asked_changes(line.client);
		status = runs ? GPUSHARE_E_TIMED_OUT : take_left(generations, count);
		line_leave();
	}
	if (runs)
		status = deferred_by(monotonic_ms() + REACH_MS, generations, count);
	return status;
}
