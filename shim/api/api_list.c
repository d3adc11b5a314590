/* SPDX-License-Identifier: MIT */
/* Listing names and deferred frees, one page of records at a time. */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"

/* Each record must sort after the one before, or the listing would never end. */
static bool is_behind(const gpushare_List *before, const record *one)
{
	return before->deferred ? one->generation > before->after_generation
				: strcmp(one->name, before->after) > 0;
}

/* Continue after the last record that the registry examined, which may not have matched. Never move
 * back, or the listing would never end. */
static int go_on(gpushare_List *list, const gpushare_ListReply *page)
{
	record last;

	memcpy(last.name, page->after, sizeof(last.name));
	last.generation = page->after_generation;
	if (is_behind(list, &last)) {
		memcpy(list->after, last.name, sizeof(list->after));
		list->after_generation = last.generation;
	} else if (!page->buffers_count) {
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry says there is more, but lists nothing");
	}
	return GPUSHARE_OK;
}

/* Fetch the next page; `list` then asks for the one after it. */
static int list_page(struct gpushare_session *session, request *ask, gpushare_ListReply *out_page)
{
	gpushare_List *list = &ask->verb.list;
	int status =
	    session_ask(session, ask, gpushare_Reply_list_tag, out_page, sizeof(*out_page));

	if (status)
		return status;
	for (pb_size_t i = 0; i < out_page->buffers_count; i++) {
		const record *one = &out_page->buffers[i];

		if (!is_behind(list, one))
			return api_fail(GPUSHARE_E_PROTOCOL,
					"the registry lists '%s' in the wrong order", one->name);
		memcpy(list->after, one->name, sizeof(list->after));
		list->after_generation = one->generation;
	}
	return out_page->more ? go_on(list, out_page) : GPUSHARE_OK;
}

static int list_all(struct gpushare_session *session, request *ask,
		    int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	_cleanup_free_ gpushare_ListReply *page = malloc(sizeof(*page));

	if (!page)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to list buffers");
	do {
		int status = list_page(session, ask, page);

		if (status)
			return status;
		for (pb_size_t i = 0; i < page->buffers_count; i++) {
			struct gpushare_info info;

			query_info(&page->buffers[i], &info);
			if (visit(&info, user))
				return api_fail(GPUSHARE_E_CANCELLED,
						"the listing was ended by its caller at '%s'",
						info.name);
		}
	} while (page->more);
	return GPUSHARE_OK;
}

static int list(struct gpushare_session *session, const char *glob, gpushare_List which,
		int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	request ask = {.which_verb = gpushare_Request_list_tag, .verb.list = which};
	int status = session_check(session);

	if (!status && !visit)
		status = api_fail(GPUSHARE_E_INVALID, "visit is NULL");
	if (!status && glob && strlen(glob) > GPUSHARE_NAME_MAX)
		status =
		    api_fail(GPUSHARE_E_INVALID, "the pattern is %zu bytes long; %d are the limit",
			     strlen(glob), GPUSHARE_NAME_MAX);
	if (status)
		return status;
	ask.verb.list.limit = sizeof(((gpushare_ListReply *)0)->buffers) / sizeof(record);
	if (glob)
		memcpy(ask.verb.list.glob, glob, strlen(glob) + 1);
	return list_all(session, &ask, visit, user);
}

API_PUBLIC int gpushare_list(struct gpushare_session *session, const char *glob,
			     int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	API_CALL;
	return list(session, glob, (gpushare_List){.events = false}, visit, user);
}

API_PUBLIC int gpushare_list_deferred(struct gpushare_session *session, const char *glob,
				      int (*visit)(const struct gpushare_info *info, void *user),
				      void *user)
{
	API_CALL;
	return list(session, glob, (gpushare_List){.deferred = true}, visit, user);
}

API_PUBLIC int gpushare_list_events(struct gpushare_session *session, const char *glob,
				    int (*visit)(const struct gpushare_info *info, void *user),
				    void *user)
{
	API_CALL;
	return list(session, glob, (gpushare_List){.events = true}, visit, user);
}
