/* SPDX-License-Identifier: MIT */
/* list: one page of the records that the peer may see and whose names match a pattern. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/call.h"

_Static_assert(sizeof(((gpushare_ListReply *)0)->buffers) == LIMIT_PAGE * sizeof(record),
	       "registry.options");

/* Where a List continues, after it has passed many names that its peer may not see. */
struct list_rest {
	gpushare_ListReply page; /* so far; page.after: the latest name that the peer may see */
	size_t work;
	char after[GPUSHARE_NAME_MAX + 1];
	uint64_t after_generation;
};

/* A page under construction. */
struct listing {
	const struct call *call;
	const gpushare_List *list;
	size_t prefix; /* length of the glob's literal prefix, which limits the range of names */
	pb_size_t limit;
	size_t work, hidden;
	const struct entry *last; /* the latest visible record of this piece */
	const struct entry *rest; /* the hidden record at which this piece ended; NULL: none */
	gpushare_ListReply *page;
};

static bool is_wanted(struct listing *listing, const struct entry *entry)
{
	const gpushare_List *list = listing->list;

	if ((entry->info.backing == GPUSHARE_BACKING_EVENT) != list->events ||
	    entry->info.deferred != list->deferred)
		return false;
	listing->work += strlen(list->glob) * strlen(entry->name); /* an upper bound */
	return !*list->glob || !fnmatch(list->glob, entry->name, 0);
}

/* Add the record to the page if the List asks for it. false: stop, because the page or this piece
 * of the work ends. */
static bool list_one(struct listing *listing, const struct entry *entry)
{
	const struct call *call = listing->call;
	gpushare_ListReply *page = listing->page;

	if (entry->info.nameless != listing->list->deferred || !access_sees(call->session, entry)) {
		/* Ending the page here would reveal hidden names. Interrupt the work instead. */
		if (++listing->hidden == LIMIT_LIST_HIDDEN)
			listing->rest = entry;
		return !listing->rest;
	}
	listing->work += LIMIT_LIST_LOOK;
	page->more = (listing->last || *page->after) && listing->work >= LIMIT_LIST_WORK;
	if (!page->more && is_wanted(listing, entry)) {
		page->more = page->buffers_count == listing->limit;
		if (!page->more)
			registry_describe(call->registry, call->session, entry,
					  &page->buffers[page->buffers_count++]);
	}
	if (!page->more)
		listing->last = entry;
	return !page->more;
}

static bool list_name(void *context, struct tree_node *node)
{
	struct listing *listing = context;
	const struct entry *entry = TREE_OF(struct entry, place, node);

	/* names are in byte order: after those with the prefix, nothing matches */
	return strncmp(entry->name, listing->list->glob, listing->prefix) <= 0 &&
	       list_one(listing, entry);
}

static bool list_deferred(void *listing, struct tree_node *node)
{
	return list_one(listing, TREE_OF(struct entry, by_generation, node));
}

static void list_from(struct listing *listing, const struct list_rest *rest)
{
	const struct store *store = &listing->call->state->store;
	const gpushare_List *list = listing->list;
	const char *after = rest ? rest->after : list->after;
	char prefix[sizeof(list->glob)];
	bool at;

	if (list->deferred) {
		tree_walk(&store->generations,
			  rest ? &rest->after_generation : &list->after_generation, false,
			  list_deferred, listing);
		return;
	}
	snprintf(prefix, sizeof(prefix), "%.*s", (int)listing->prefix, list->glob);
	at = strcmp(after, prefix) < 0;
	tree_walk(&store->names, at ? prefix : after, at, list_name, listing);
}

/* Save what is done of this answer. Once others have had the lock, the List resumes after
 * listing->rest. */
static int interrupt(const struct listing *listing, struct list_rest **rest)
{
	if (!*rest)
		*rest = malloc(sizeof(**rest));
	if (!*rest)
		return GPUSHARE_E_NO_MEMORY;
	(*rest)->page = *listing->page;
	(*rest)->work = listing->work;
	strcpy((*rest)->after, listing->rest->name);
	(*rest)->after_generation = listing->rest->info.generation;
	return HANDLE_MORE;
}

int handle_list(struct call *call)
{
	const gpushare_List *list = &call->ask->verb.list;
	gpushare_ListReply *page = &call->answer->body.list;
	struct list_rest *rest = call->session->list_rest;
	struct listing listing = {
	    .call = call,
	    .list = list,
	    .prefix = strcspn(list->glob, "*?[]\\"),
	    .limit = !list->limit		? LIMIT_PAGE_UNASKED
		     : list->limit < LIMIT_PAGE ? list->limit
						: LIMIT_PAGE,
	    .work = rest ? rest->work : 0,
	    .page = page,
	};

	page->buffers_count = 0;
	page->more = false;
	*page->after = '\0';
	page->after_generation = 0;
	if (rest)
		*page = rest->page;
	list_from(&listing, rest);
	if (listing.last) {
		strcpy(page->after, listing.last->name);
		page->after_generation = listing.last->info.generation;
	}
	if (listing.rest)
		return interrupt(&listing, &call->session->list_rest);
	free(rest);
	call->session->list_rest = NULL;
	if (!page->more) {
		*page->after = '\0';
		page->after_generation = 0;
	}
	return GPUSHARE_OK;
}
