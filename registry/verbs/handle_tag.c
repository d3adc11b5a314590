/* SPDX-License-Identifier: MIT */
/* tag: what a buffer is said to be. holders: who has it attached. */
#include <string.h>

#include "permission.h"
#include "verbs/check.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "quota.h"

#define TAGS_MAX GPUSHARE_TAGS_MAX
#define PAGE (sizeof(((gpushare_HoldersReply *)0)->holders) / sizeof(gpushare_Holder))

/* The tags of a buffer as they are to be. */
struct tags {
	gpushare_Tag tags[2 * TAGS_MAX];
	pb_size_t count;
};

static void tags_set(struct tags *all, const gpushare_Tag *tag)
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

static int find(const struct registry *registry, const struct session *session, const char *name,
		uint64_t generation, reply *answer, struct entry **out_entry)
{
	struct entry *entry = generation
				  ? permission_find_generation(registry, session, name, generation)
				  : permission_find(registry, session, name);

	if (!entry)
		return explain_other(answer, registry, session, name, generation);
	*out_entry = entry;
	return GPUSHARE_OK;
}

int handle_tag(struct registry *registry, struct session *session, const request *ask,
	       reply *answer)
{
	const gpushare_SetTags *wanted = &ask->verb.tag;
	struct tags all = {.count = 0};
	struct entry *entry;
	int status = check_tags(wanted->name, wanted->tags, wanted->tags_count, answer);

	if (!status)
		status = find(registry, session, wanted->name, wanted->generation, answer, &entry);
	if (status)
		return status;
	if (!(access_of(session, entry) & ACCESS_OWN))
		return permission_deny_owner(session, entry, "tag", answer);
	all.count = entry->tags_count;
	if (all.count)
		memcpy(all.tags, entry->tags, all.count * sizeof(*all.tags));
	for (pb_size_t i = 0; i < wanted->tags_count; i++)
		tags_set(&all, &wanted->tags[i]);
	if (all.count > TAGS_MAX)
		return explain(answer, GPUSHARE_E_LIMIT,
			       "\"%s\" would have %d tags, and a buffer has at most %d; take some "
			       "away",
			       wanted->name, all.count, TAGS_MAX);
	status = limit_check_tags(registry, entry->user, entry, all.count, answer);
	if (status)
		return status;
	if (!buffer_tag(&registry->state, entry, all.tags, all.count))
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	log_line("tag: uid %u pid %d (%s), \"%s\", %d tags", session->peer.uid, session->peer.pid,
		 session->peer.command, wanted->name, all.count);
	return GPUSHARE_OK;
}

/* Into its place by connection; the last one makes room. */
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

int handle_holders(struct registry *registry, struct session *session, const request *ask,
		   reply *answer)
{
	const gpushare_Holders *wanted = &ask->verb.holders;
	const struct attachment *attachment;
	struct entry *entry;
	int status = find(registry, session, wanted->name, wanted->generation, answer, &entry);

	if (status)
		return status;
	answer->which_body = gpushare_Reply_holders_tag;
	for (const struct session *each = registry->sessions.by_id; each; each = each->hh.next) {
		attachment =
		    session_find_attachment(each, entry->info.name, entry->info.generation);
		if (attachment && each->id > wanted->after)
			page_insert(&answer->body.holders, each, attachment);
	}
	return GPUSHARE_OK;
}
