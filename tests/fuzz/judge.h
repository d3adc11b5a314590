/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_JUDGE_H
#define TESTS_FUZZ_JUDGE_H
/* Invariants of a registry between any two requests. */
#include "fuzz.h"
#include "context/registry.h"

/* The first buffer with a name above that one; NULL past the end. */
static inline struct entry *judge_after(const struct registry *registry, const char *name)
{
	return TREE_FOUND(struct entry, place, tree_above(&registry->state.store.names, name));
}

/* Count an entry's attachments in the sessions' own lists. */
static uint32_t judge_attachers(const struct registry *registry, const struct entry *entry)
{
	uint32_t count = 0;

	for (const struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		const struct attachment *attachment =
		    session_find_attachment(session, entry->info.generation);

		if (attachment && !attachment->own)
			count += attachment->count;
	}
	return count;
}

/*
 * Every record has a living session or is kept: it is in exactly one list, a session's or that of
 * the kept.
 */
static size_t judge_lists(const struct registry *registry, size_t *out_nameless)
{
	const struct entry *entry;
	size_t named = 0;

	*out_nameless = 0;
	for (const struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		DL_FOREACH (session->entries, entry) {
			FUZZ_MUST(entry->session == session);
			++*(entry->info.nameless ? out_nameless : &named);
			FUZZ_MUST((entry->info.nameless
				       ? store_find_deferred(&registry->state.store,
							     entry->info.generation)
				       : store_find(&registry->state.store, entry->name)) == entry);
		}
	}
	for (entry = buffer_next_kept(&registry->state, NULL); entry;
	     entry = buffer_next_kept(&registry->state, entry)) {
		named++;
		FUZZ_MUST(!entry->session && entry_is_kept(entry->info.flags));
		FUZZ_MUST(store_find(&registry->state.store, entry->name) == entry);
	}
	return named;
}

static void judge_counts(const struct registry *registry)
{
	uint64_t attachments = 0, sessions = 0, disconnected = 0;

	for (const struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		const struct attachment *each;

		sessions++;
		disconnected += session->disconnected;
		for (each = session_next(session, 0); each;
		     each = session_next(session, each->generation)) {
			FUZZ_MUST(each->count);
			attachments += each->count;
		}
	}
	FUZZ_MUST(attachments == registry->state.users.total.held[LIMIT_attachments]);
	FUZZ_MUST(sessions - disconnected == registry->state.users.total.held[LIMIT_connections]);
	FUZZ_MUST(sessions == HASH_COUNT(registry->state.sessions.by_id) &&
		  disconnected == registry->state.sessions.disconnected);
}

/* Compare the totals that Stat reports with a count of all records. */
static void judge_tallies(const struct registry *registry)
{
	const struct account *total = &registry->state.users.total;
	struct buffers named = {0}, deferred = {0};
	const struct entry *entry;

	for (entry = judge_after(registry, ""); entry; entry = judge_after(registry, entry->name)) {
		named.count += !entry_is_staged(entry->info.flags);
		named.bytes += entry_is_staged(entry->info.flags)
				   ? 0
				   : held_bytes(entry->info.size, entry->info.base_size);
	}
	for (entry = store_next(&registry->state.store, 0); entry;
	     entry = store_next(&registry->state.store, entry->info.generation)) {
		if (!entry->info.nameless)
			continue;
		deferred.count += entry->info.deferred;
		deferred.bytes +=
		    entry->info.deferred ? held_bytes(entry->info.size, entry->info.base_size) : 0;
	}
	for (int i = 0; i < COUNTS_BACKINGS; i++) {
		named.count -= total->named[i].count;
		named.bytes -= total->named[i].bytes;
		deferred.count -= total->deferred[i].count;
		deferred.bytes -= total->deferred[i].bytes;
	}
	FUZZ_MUST(!named.count && !named.bytes && !deferred.count && !deferred.bytes);
}

static void judge_registry(const struct registry *registry)
{
	uint64_t kept_bytes = 0, tags = 0, before = 0;
	const struct entry *entry, *last = NULL;
	size_t nameless;

	FUZZ_MUST(judge_lists(registry, &nameless) ==
		  registry->state.users.total.held[LIMIT_names]);
	FUZZ_MUST(nameless == registry->state.users.total.held[LIMIT_deferred]);
	for (entry = judge_after(registry, ""); entry; entry = judge_after(registry, entry->name)) {
		FUZZ_MUST(name_is_valid(entry->name) && entry->info.generation);
		FUZZ_MUST(!last || strcmp(last->name, entry->name) < 0);
		FUZZ_MUST(entry->info.attachers == judge_attachers(registry, entry));
		FUZZ_MUST(!entry->info.deferred);
		kept_bytes += entry_is_kept(entry->info.flags)
				  ? held_bytes(entry->info.size, entry->info.base_size)
				  : 0;
		tags += entry->info.tags_count;
		last = entry;
	}
	FUZZ_MUST(kept_bytes == registry->state.users.total.held[LIMIT_kept_bytes]);
	for (entry = store_next(&registry->state.store, 0); entry;
	     entry = store_next(&registry->state.store, entry->info.generation)) {
		if (!entry->info.nameless)
			continue;
		FUZZ_MUST(entry->info.generation > before && entry->session && !entry->fdref);
		FUZZ_MUST(entry->info.attachers == judge_attachers(registry, entry));
		tags += entry->info.tags_count;
		before = entry->info.generation;
	}
	FUZZ_MUST(tags == registry->state.users.total.held[LIMIT_tags]);
	judge_tallies(registry);
	judge_counts(registry);
}

#endif
