/* SPDX-License-Identifier: MIT */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"

static void counts_read(const gpushare_Count *from, pb_size_t count,
			struct gpushare_count out_counts[GPUSHARE_COUNTS_MAX])
{
	for (pb_size_t i = 0; i < count; i++) {
		memcpy(out_counts[i].what, from[i].what, sizeof(out_counts[i].what));
		out_counts[i].count = from[i].count;
		out_counts[i].bytes = from[i].bytes;
	}
}

static void stat_read(const gpushare_StatReply *from, struct gpushare_registry_info *to)
{
	*to = (struct gpushare_registry_info){
	    .names = from->names,
	    .attachments = from->attachments,
	    .connections = from->connections,
	    .waiters = from->waiters,
	    .requests = from->requests,
	    .deferred = from->deferred,
	    .started_unix_ns = from->started_unix_ns,
	    .deferred_bytes = from->deferred_bytes,
	    .kept_bytes = from->kept_bytes,
	    .kept_limit = from->kept_limit,
	    .descriptors = from->descriptors,
	    .hidden = from->hidden,
	    .pid = from->pid,
	    .lock_held_max_us = (uint32_t)(from->lock_held_max_ns / 1000),
	};
	memcpy(to->version, from->version, sizeof(to->version));
	counts_read(from->by_verb, from->by_verb_count, to->by_verb);
	counts_read(from->by_status, from->by_status_count, to->by_status);
	counts_read(from->by_backing, from->by_backing_count, to->by_backing);
	counts_read(from->by_limit, from->by_limit_count, to->by_limit);
	counts_read(from->by_drop, from->by_drop_count, to->by_drop);
	counts_read(from->by_audit, from->by_audit_count, to->by_audit);
}

API_PUBLIC int gpushare_stat_registry(struct gpushare_session *session,
				      struct gpushare_registry_info *out_info)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_stat_tag};
	_cleanup_free_ gpushare_StatReply *answer = NULL;
	int status = session_check(session);

	if (!status && !out_info)
		status = api_fail(GPUSHARE_E_INVALID, "out_info is NULL");
	if (status)
		return status;
	answer = malloc(sizeof(*answer));
	if (!answer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for the registry's counters");
	status = session_ask(session, &ask, gpushare_Reply_stat_tag, answer, sizeof(*answer));
	if (!status)
		stat_read(answer, out_info);
	return status;
}
