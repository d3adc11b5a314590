/* SPDX-License-Identifier: MIT */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

#include "tally.h"
#include "users.h"

_Static_assert(sizeof(((struct known *)0)->device_uuid) == sizeof(((record *)0)->device_uuid) &&
		   sizeof(((struct process *)0)->command) == sizeof(((record *)0)->owner_command),
	       "they are copied as they are");

static void know(const record *from, struct known *to)
{
	memcpy(to->device_uuid, from->device_uuid, sizeof(to->device_uuid));
	to->address = from->address;
#define F(type, field) to->field = from->field;
	INDEX_FIELDS(F)
#undef F
	to->in_limbo = from->in_limbo;
}

void entry_tell(const struct entry *entry, record *out_info)
{
	const struct known *from = &entry->info;

	*out_info = (record){.address = from->address, .in_limbo = from->in_limbo};
	strcpy(out_info->name, from->name);
	strcpy(out_info->owner_command, entry->owner.command);
	memcpy(out_info->device_uuid, from->device_uuid, sizeof(from->device_uuid));
#define F(type, field) out_info->field = from->field;
	INDEX_FIELDS(F)
#undef F
	out_info->tags_count = entry->tags_count;
	if (entry->tags_count)
		memcpy(out_info->tags, entry->tags, entry->tags_count * sizeof(*entry->tags));
}

/* In place of those that it has. */
static void put_tags(struct entry *entry, gpushare_Tag *tags, pb_size_t count)
{
	if (entry->user) {
		user_take(entry->user, LIMIT_tags, entry->tags_count);
		user_add(entry->user, LIMIT_tags, count);
	}
	free(entry->tags);
	entry->tags = tags;
	entry->tags_count = count;
}

bool entry_tag(struct entry *entry, const gpushare_Tag *tags, pb_size_t count)
{
	gpushare_Tag *room = NULL;

	if (count) {
		room = malloc(count * sizeof(*room));
		if (!room)
			return false;
		memcpy(room, tags, count * sizeof(*room));
	}
	put_tags(entry, room, count);
	return true;
}

void entry_become(struct entry *entry, struct entry *made)
{
	put_tags(entry, made->tags, made->tags_count);
	entry->info = made->info;
	entry->info.name = entry->name;
	memcpy(entry->handle, made->handle, sizeof(entry->handle));
	free(made);
}

struct entry *entry_new(const record *info, const uint8_t *handle)
{
	struct entry *entry = calloc(1, sizeof(*entry) + strlen(info->name) + 1);

	if (!entry || !entry_tag(entry, info->tags, info->tags_count)) {
		free(entry);
		return NULL;
	}
	know(info, &entry->info);
	entry->info.name = strcpy(entry->name, info->name);
	memcpy(entry->handle, handle, sizeof(entry->handle));
	entry->deadline_ns = INT64_MAX;
	return entry;
}

void entry_count_kept(struct entry *entry)
{
	if (!entry_is_kept(entry->info.flags))
		return;
	entry->kept_bytes = entry->info.base_size;
	user_add(entry->user, LIMIT_kept_bytes, entry->kept_bytes);
}

void entry_uncount_kept(struct entry *entry)
{
	user_take(entry->user, LIMIT_kept_bytes, entry->kept_bytes);
	entry->kept_bytes = 0;
}

struct entry *entry_free(struct entry *entry)
{
	user_leave(entry);
	tally_drop(entry);
	free(entry->tags);
	free(entry);
	return NULL;
}
