/* SPDX-License-Identifier: MIT */
/* tag: set and remove tags. */
#include <string.h>

#include "verbs/call.h"

/* The tags that the buffer will have. There is room for all old ones and all new ones. */
struct tags {
	gpushare_Tag tags[2 * GPUSHARE_TAGS_MAX];
	pb_size_t count;
};

static void set(struct tags *all, const gpushare_Tag *tag)
{
	pb_size_t at = 0;

	while (at < all->count && strcmp(all->tags[at].key, tag->key) != 0)
		at++;
	if (*tag->value) {
		all->tags[at] = *tag;
		all->count += at == all->count;
	} else if (at < all->count) {
		all->count--;
		memmove(&all->tags[at], &all->tags[at + 1], (all->count - at) * sizeof(*all->tags));
	}
}

int handle_tag(struct call *call)
{
	const gpushare_SetTags *wanted = &call->ask->verb.tag;
	struct tags all = {.count = 0};
	struct entry *entry;
	int status = check_tags(call, wanted->tags, wanted->tags_count);

	if (status)
		return status;
	entry = call_find(call, wanted->generation);
	if (!entry)
		return explain_other(call, wanted->generation);
	status = check_owner(call, entry, "tag");
	if (status)
		return status;
	all.count = entry->info.tags_count;
	if (all.count)
		memcpy(all.tags, entry->tags, all.count * sizeof(*all.tags));
	for (pb_size_t i = 0; i < wanted->tags_count; i++)
		set(&all, &wanted->tags[i]);
	if (all.count > GPUSHARE_TAGS_MAX)
		return refuse(call, GPUSHARE_E_LIMIT,
			      "\"%s\" would have %d tags; a buffer has at most %d: remove some",
			      call->name, all.count, GPUSHARE_TAGS_MAX);
	status = check_tag_limit(call, entry->user, entry, all.count);
	if (status)
		return status;
	if (!buffer_tag(call->state, entry, all.tags, all.count))
		return GPUSHARE_E_NO_MEMORY;
	call_log(call, "tag", "\"%s\", %d tags", call->name, all.count);
	return GPUSHARE_OK;
}
