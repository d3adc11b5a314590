/* SPDX-License-Identifier: MIT */
#include "state/entry.h"

#include <stdlib.h>
#include <string.h>

#include "state/session.h"
#include "state/users.h"

_Static_assert(sizeof(((struct known *)0)->device_uuid) == sizeof(((record *)0)->device_uuid) &&
		   sizeof(((struct process *)0)->command) == sizeof(((record *)0)->owner_command),
	       "they are copied as they are");

const struct process *entry_owner(const struct entry *entry)
{
	if (entry->session)
		return &entry->session->peer;
	return entry->parted ? entry->parted : &entry->user->nobody;
}

void entry_part(struct entry *entry, const struct process *owner)
{
	struct process *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *owner;
	free(entry->parted);
	entry->parted = copy;
}

void entry_describe(const struct entry *entry, record *out_info)
{
	const struct process *owner = entry_owner(entry);
	const struct known *from = &entry->info;

	strcpy(out_info->name, entry->name);
	strcpy(out_info->owner_command, owner->command);
	out_info->owner_started = owner->started;
	out_info->owner_uid = owner->uid;
	out_info->owner_pid = owner->pid;
	memcpy(out_info->device_uuid, from->device_uuid, sizeof(from->device_uuid));
	out_info->address = from->address;
#define F(type, field) out_info->field = from->field;
	INDEX_FIELDS(F, INDEX_LEAVE_OUT)
#undef F
	out_info->deferred = from->deferred;
	out_info->ttl_left_s = out_info->ordering = 0;
	out_info->sequence = 0;
	out_info->tags_count = entry->info.tags_count;
	if (entry->info.tags_count)
		memcpy(out_info->tags, entry->tags, entry->info.tags_count * sizeof(*entry->tags));
}

bool entry_tag(struct entry *entry, const gpushare_Tag *tags, pb_size_t count)
{
	gpushare_Tag *copy = NULL;

	if (count) {
		copy = malloc(count * sizeof(*copy));
		if (!copy)
			return false;
		memcpy(copy, tags, count * sizeof(*copy));
	}
	free(entry->tags);
	entry->tags = copy;
	entry->info.tags_count = count;
	return true;
}

struct entry *entry_new(const record *info, const uint8_t *handle)
{
	struct entry *entry = calloc(1, sizeof(*entry) + strlen(info->name) + 1);

	if (!entry || !entry_tag(entry, info->tags, info->tags_count)) {
		free(entry);
		return NULL;
	}
	memcpy(entry->info.device_uuid, info->device_uuid, sizeof(entry->info.device_uuid));
	entry->info.address = info->address;
#define F(type, field) entry->info.field = info->field;
	INDEX_FIELDS(F, INDEX_LEAVE_OUT)
#undef F
	entry->info.deferred = info->deferred;
	strcpy(entry->name, info->name);
	memcpy(entry->handle, handle, sizeof(entry->handle));
	entry->info.nameless = true;
	entry->deadline_ns = INT64_MAX;
	return entry;
}

void entry_free(struct entry *entry)
{
	free(entry->parted);
	free(entry->tags);
	free(entry);
}

#define NAMED(found) TREE_FOUND(struct entry, place, found)
#define NUMBERED(found) TREE_FOUND(struct entry, by_generation, found)

static int compare_name(const void *key, const struct tree_node *node)
{
	return strcmp(key, TREE_OF(struct entry, place, node)->name);
}

static int compare_generation(const void *key, const struct tree_node *node)
{
	const struct entry *entry = TREE_OF(struct entry, by_generation, node);
	uint64_t a = *(const uint64_t *)key, b = entry->info.generation;

	return (a > b) - (a < b);
}

void store_init(struct store *store)
{
	*store = (struct store){.names = {.compare = compare_name},
				.generations = {.compare = compare_generation}};
}

void store_name(struct store *store, struct entry *entry)
{
	entry->info.nameless = false;
	tree_insert(&store->names, &entry->place, entry->name);
}

void store_unname(struct store *store, struct entry *entry)
{
	if (!entry->info.nameless)
		tree_remove(&store->names, &entry->place, entry->name);
	entry->info.nameless = true;
}

void store_number(struct store *store, struct entry *entry, uint64_t generation)
{
	entry->info.generation = generation;
	tree_insert(&store->generations, &entry->by_generation, &generation);
}

void store_remove(struct store *store, struct entry *entry)
{
	user_uncharge(entry);
	store_unname(store, entry);
	tree_remove(&store->generations, &entry->by_generation, &entry->info.generation);
	entry_free(entry);
}

struct entry *store_find(const struct store *store, const char *name)
{
	return NAMED(tree_find(&store->names, name));
}

struct entry *store_find_generation(const struct store *store, uint64_t generation)
{
	return NUMBERED(tree_find(&store->generations, &generation));
}

struct entry *store_find_deferred(const struct store *store, uint64_t generation)
{
	struct entry *entry = store_find_generation(store, generation);

	return entry && entry->info.nameless ? entry : NULL;
}

struct entry *store_next(const struct store *store, uint64_t generation)
{
	return NUMBERED(tree_above(&store->generations, &generation));
}
