/* SPDX-License-Identifier: MIT */
/* Listing names and deferred frees, one page of records at a time. */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"

/* Whether the page has made progress; else the listing would never end. */
static bool goes_on(const gpushare_List *list, const gpushare_ListReply *page)
{
	return list->deferred ? page->after_generation > list->after_generation
			      : strcmp(page->after, list->after) > 0;
}

/* Fetch the next page; `list` then asks for the one after it. */
static int list_page(struct gpushare_session *session, request *ask, gpushare_ListReply *out_page)
{
	gpushare_List *list = &ask->verb.list;
	int status =
	    session_ask(session, ask, gpushare_Reply_list_tag, out_page, sizeof(*out_page));

	if (status || !out_page->more)
		return status;
	if (!goes_on(list, out_page))
		return api_fail(
		    GPUSHARE_E_PROTOCOL,
		    "the registry says that its list goes on, but not after which name");
	memcpy(list->after, out_page->after, sizeof(list->after));
	list->after_generation = out_page->after_generation;
	return GPUSHARE_OK;
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
						"the callback ended the listing at '%s'",
						info.name);
		}
	} while (page->more);
	return GPUSHARE_OK;
}

static int list(struct gpushare_session *session, const char *glob, gpushare_List which,
		int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	request ask = {.which_verb = gpushare_Request_list_tag, .verb.list = which};
	int status = session_check_glob(session, glob);

	if (!status && !visit)
		status = api_fail(GPUSHARE_E_INVALID, "visit is NULL");
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
