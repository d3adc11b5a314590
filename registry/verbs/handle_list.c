/* SPDX-License-Identifier: MIT */
/* list: one page of the records that the peer may see and whose names match a pattern. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/call.h"

_Static_assert(sizeof(((gpushare_ListReply *)0)->buffers) == LIMIT_PAGE * sizeof(record),
	       "registry.options");

/* An fnmatch(3) pattern, applied to names in byte order. Its literal prefix limits the range of
 * names. Most patterns need no fnmatch(). */
struct pattern {
	const char *text; /* "" for all names */
	size_t prefix;	  /* length of its literal prefix */
	bool plain;	  /* '*' and '?' are its only special characters */
};

static struct pattern pattern_begin(const char *text)
{
	return (struct pattern){
	    .text = text,
	    .prefix = strcspn(text, "*?[]\\"),
	    .plain = !strpbrk(text, "[]\\"),
	};
}

/* The first name after `after` that may match; NULL: none. */
static const struct entry *pattern_seek(const struct pattern *pattern, const struct store *store,
					const char *after)
{
	char prefix[GPUSHARE_NAME_MAX + 1];
	const struct entry *same;

	if (!pattern->prefix || strncmp(after, pattern->text, pattern->prefix) >= 0)
		return store_after(store, after);
	memcpy(prefix, pattern->text, pattern->prefix);
	prefix[pattern->prefix] = '\0';
	same = store_find(store, prefix);
	return same ? same : store_after(store, prefix);
}

/* Whether neither this name nor a later one can match. */
static bool pattern_is_past(const struct pattern *pattern, const char *name)
{
	return strncmp(name, pattern->text, pattern->prefix) > 0;
}

/* On a mismatch, the latest '*' takes one more byte, and the comparison restarts behind it. Earlier
 * ones need no second try. */
static bool fits(const char *text, const char *name, size_t *work)
{
	const char *star = NULL, *from = name;

	for (; *name; ++*work) {
		if (*text == '*') {
			star = ++text;
			from = name;
		} else if (*text && (*text == '?' || *text == *name)) {
			text++;
			name++;
		} else if (star) {
			text = star;
			name = ++from;
		} else {
			return false;
		}
	}
	return !text[strspn(text, "*")];
}

/* Adds the number of steps that the comparison takes to *work. */
static bool pattern_fits(const struct pattern *pattern, const char *name, size_t *work)
{
	if (!*pattern->text)
		return true;
	if (pattern->plain)
		return fits(pattern->text, name, work);
	*work += strlen(pattern->text) * strlen(name);
	return !fnmatch(pattern->text, name, 0);
}

/* A page under construction. */
struct listing {
	const struct call *call;
	const gpushare_List *list;
	struct pattern pattern;
	pb_size_t limit;
	size_t work, hidden;
	bool looked;		  /* an earlier piece looked at a visible record */
	const struct entry *last; /* the latest visible record of this piece */
	const struct entry *rest; /* if hidden records end this piece: the last of them */
	gpushare_ListReply *page;
};

static bool is_wanted(struct listing *listing, const struct entry *entry)
{
	const gpushare_List *list = listing->list;

	return (entry->info.backing == GPUSHARE_BACKING_EVENT) == list->events &&
	       entry->info.deferred == list->deferred &&
	       pattern_fits(&listing->pattern, entry->info.name, &listing->work);
}

/* Add the record to the page if the List asks for it. false: stop, because the page or this piece
 * of the work ends. */
static bool list_one(struct listing *listing, const struct entry *entry)
{
	const struct call *call = listing->call;
	gpushare_ListReply *page = listing->page;

	if (entry->nameless != listing->list->deferred || !access_sees(call->session, entry)) {
		/* Ending the page here would reveal hidden names. Interrupt the work instead. */
		if (++listing->hidden == LIMIT_LIST_HIDDEN)
			listing->rest = entry;
		return !listing->rest;
	}
	listing->work += LIMIT_LIST_LOOK;
	page->more = (listing->last || listing->looked) && listing->work >= LIMIT_LIST_WORK;
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

static bool list_name(void *listing, struct tree_node *node)
{
	const struct entry *entry = TREE_OF(struct entry, place, node);

	return !pattern_is_past(&((struct listing *)listing)->pattern, entry->name) &&
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
	const struct entry *first;

	if (list->deferred) {
		tree_walk(&store->generations,
			  rest ? &rest->after_generation : &list->after_generation, false,
			  list_deferred, listing);
		return;
	}
	first = pattern_seek(&listing->pattern, store, after);
	if (first)
		tree_walk(&store->names, first->name, true, list_name, listing);
}

/* Save the state of the page. After others had the lock, the List continues behind
 * listing->rest. */
static int interrupt(const struct listing *listing, struct list_rest **rest)
{
	if (!*rest)
		*rest = malloc(sizeof(**rest));
	if (!*rest)
		return GPUSHARE_E_NO_MEMORY;
	(*rest)->page = *listing->page;
	(*rest)->work = listing->work;
	(*rest)->looked = listing->last || listing->looked;
	strcpy((*rest)->after, listing->rest->info.name);
	(*rest)->after_generation = listing->rest->info.generation;
	return HANDLE_MORE;
}

int handle_list(struct call *call)
{
	const gpushare_List *list = &call->ask->verb.list;
	gpushare_ListReply *page = &call->answer->body.list;
	const struct list_rest *rest = call->registry->list_rest;
	struct listing listing = {
	    .call = call,
	    .list = list,
	    .pattern = pattern_begin(list->glob),
	    .limit = !list->limit		? LIMIT_PAGE_UNASKED
		     : list->limit < LIMIT_PAGE ? list->limit
						: LIMIT_PAGE,
	    .work = rest ? rest->work : 0,
	    .looked = rest && rest->looked,
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
		strcpy(page->after, listing.last->info.name);
		page->after_generation = listing.last->info.generation;
	}
	if (listing.rest)
		return interrupt(&listing, &call->registry->list_rest);
	if (!page->more) {
		*page->after = '\0';
		page->after_generation = 0;
	}
	return GPUSHARE_OK;
}
