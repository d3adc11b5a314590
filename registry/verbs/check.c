/* SPDX-License-Identifier: MIT */
#include "verbs/check.h"

#include <inttypes.h>
#include <string.h>

#include "explain.h"
#include "text.h"

static bool all_zero(const uint8_t *bytes, size_t size)
{
	while (size && !bytes[size - 1])
		size--;
	return size == 0;
}

/* A name's alphabet without the slash. */
static bool key_is_valid(const char *key)
{
	return name_is_valid(key) && !strchr(key, '/');
}

int check_tags(const char *name, const gpushare_Tag *tags, pb_size_t count, reply *answer)
{
	for (pb_size_t i = 0; i < count; i++) {
		const gpushare_Tag *tag = &tags[i];

		if (!key_is_valid(tag->key))
			return explain(answer, GPUSHARE_E_INVALID,
				       "\"%s\": the key of tag %d is not made of A-Z a-z 0-9 . _ -",
				       name, i + 1);
		/* Values end up on terminals and in one-line logs. */
		if (text_control(tag->value))
			return explain(answer, GPUSHARE_E_INVALID,
				       "\"%s\": the value of tag %s holds a control character",
				       name, tag->key);
		for (pb_size_t j = 0; j < i; j++) {
			if (!strcmp(tags[j].key, tag->key))
				return explain(answer, GPUSHARE_E_INVALID,
					       "\"%s\": tag %s comes twice", name, tag->key);
		}
	}
	return GPUSHARE_OK;
}

/* What a backing travels as comes, and nothing else. */
static int check_travel(const gpushare_Share *share, bool with_fd, reply *answer)
{
	bool fd = backing_is_fd(share->buffer.backing);
	bool handle = !all_zero(share->handle, sizeof(share->handle));

	if (fd && !with_fd && !share->adopt)
		return explain(
		    answer, GPUSHARE_E_INVALID,
		    "\"%s\" comes without its file descriptor, which goes beside a Share "
		    "to " GPUSHARE_FDS_SOCKET,
		    share->buffer.name);
	if (!fd && !handle)
		return explain(answer, GPUSHARE_E_INVALID, "\"%s\" comes without a handle",
			       share->buffer.name);
	if (with_fd && handle)
		return explain(answer, GPUSHARE_E_INVALID,
			       "\"%s\" comes with a handle and with a file descriptor, where its "
			       "backing has one of them",
			       share->buffer.name);
	return GPUSHARE_OK;
}

#define KINDS (GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY)

/* Only a descriptor can be kept, and be handed out for reading alone. */
static int check_flags(const gpushare_Share *share, reply *answer)
{
	const record *info = &share->buffer;
	bool keep = info->flags & GPUSHARE_FLAG_KEEP;

	if (info->flags & ~(uint32_t)(KINDS | GPUSHARE_FLAG_STAGED))
		return explain(answer, GPUSHARE_E_NOT_SUPPORTED,
			       "\"%s\": this registry knows no flags 0x%x", info->name,
			       (unsigned)info->flags);
	if (info->flags & KINDS && !backing_is_fd(info->backing))
		return explain(answer, GPUSHARE_E_INVALID,
			       "\"%s\" can't be kept or read-only: it does not travel as a file "
			       "descriptor; use memory of cuMemCreate",
			       info->name);
	if (!keep && (info->ttl_s || share->adopt))
		return explain(answer, GPUSHARE_E_INVALID, "\"%s\" comes with %s, but without keep",
			       info->name, share->adopt ? "adopt" : "a ttl");
	if (info->flags & GPUSHARE_FLAG_STAGED && (share->adopt || share->orphan))
		return explain(answer, GPUSHARE_E_INVALID,
			       "\"%s\" is to be staged, and everybody knows it: it %s", info->name,
			       share->adopt ? "is adopted" : "has lost its owner");
	return GPUSHARE_OK;
}

int check_generation(const char *name, uint64_t generation, reply *answer)
{
	if (generation <= GENERATION_TOLD)
		return GPUSHARE_OK;
	return explain(answer, GPUSHARE_E_INVALID, "\"%s\" can't have had generation %" PRIu64,
		       name, generation);
}

static int check_again(const gpushare_Share *share, reply *answer)
{
	const char *name = share->buffer.name;

	if (share->orphan && (!share->again || !(share->buffer.flags & GPUSHARE_FLAG_KEEP)))
		return explain(answer, GPUSHARE_E_INVALID,
			       "\"%s\" is brought back without its owner, but without %s", name,
			       share->again ? "keep" : "its generation");
	if (share->again && share->adopt)
		return explain(answer, GPUSHARE_E_INVALID,
			       "\"%s\" is brought back or adopted, not both", name);
	return check_generation(name, share->again, answer);
}

/* What there is of it: memory, or an event. */
static int check_extent(const record *info, reply *answer)
{
	if (info->backing == GPUSHARE_BACKING_EVENT) {
		if (!info->size && !info->base_offset && !info->base_size)
			return GPUSHARE_OK;
		return explain(answer, GPUSHARE_E_INVALID, "\"%s\" is an event, and has bytes",
			       info->name);
	}
	if (!info->size)
		return explain(answer, GPUSHARE_E_INVALID, "\"%s\" has no bytes", info->name);
	if (info->size > info->base_size || info->base_offset > info->base_size - info->size)
		return explain(answer, GPUSHARE_E_RANGE,
			       "\"%s\" reaches past the end of its allocation", info->name);
	return GPUSHARE_OK;
}

int check_share(const gpushare_Share *share, bool with_fd, reply *answer)
{
	const record *info = &share->buffer;
	int status;

	if (!name_is_valid(info->name))
		return explain(answer, GPUSHARE_E_NAME, "%s", name_fault(info->name));
	status = check_extent(info, answer);
	if (status)
		return status;
	if (!backing_is_known(info->backing))
		return explain(answer, GPUSHARE_E_NOT_SUPPORTED,
			       "\"%s\": this registry knows no backing %u", info->name,
			       (unsigned)info->backing);
	if (all_zero(info->device_uuid, sizeof(info->device_uuid)))
		return explain(answer, GPUSHARE_E_INVALID, "\"%s\" names no GPU", info->name);
	status = check_flags(share, answer);
	if (!status)
		status = check_again(share, answer);
	if (!status)
		status = check_travel(share, with_fd, answer);
	return status ? status : check_tags(info->name, info->tags, info->tags_count, answer);
}
