/* SPDX-License-Identifier: MIT */
#include "os/identity.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

#define GROUP_ROOM_MAX (1u << 20)

/* The second of the line's four numbers is the effective one. */
static bool is_effective(const char *line, uint32_t wanted)
{
	uint32_t effective;

	return sscanf(line, "%*u %" SCNu32, &effective) == 1 && effective == wanted;
}

static int compare(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

static void parse_groups(struct identity *identity, const char *line)
{
	uint32_t *groups = malloc((strlen(line) / 2 + 1) * sizeof(*groups)); /* "N N N " */
	char *end;

	if (!groups)
		return;
	for (;; line = end) {
		unsigned long group = strtoul(line, &end, 10);

		if (end == line)
			break;
		groups[identity->count++] = (uint32_t)group;
	}
	qsort(groups, identity->count, sizeof(*groups), compare);
	identity->groups = groups;
}

void identity_read(struct identity *identity, const struct process *peer, uint32_t gid)
{
	bool is_user = false, is_group = false;
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *status;

	*identity = (struct identity){.uid = peer->uid, .gid = gid};
	if (peer->pid <= 0 || !peer->started)
		return;
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/status", peer->pid);
	status = fopen(path, "re");
	while (status && getline(&line, &room, status) > 0) {
		if (!strncmp(line, "Uid:", 4))
			is_user = is_effective(line + 4, peer->uid);
		else if (!strncmp(line, "Gid:", 4))
			is_group = is_effective(line + 4, gid);
		else if (!strncmp(line, "Groups:", 7))
			parse_groups(identity, line + 7);
	}
	/* Checked last: if the peer still runs, the file was that process's. */
	if (!is_user || !is_group || !process_runs(peer))
		identity_finish(identity);
	free(line);
	if (status)
		fclose(status);
}

void identity_finish(struct identity *identity)
{
	free(identity->groups);
	identity->groups = NULL;
	identity->count = 0;
}

bool identity_is_in(const struct identity *identity, uint32_t gid)
{
	if (gid == IDENTITY_NO_GROUP)
		return false;
	return gid == identity->gid ||
	       (identity->count && bsearch(&gid, identity->groups, identity->count,
					   sizeof(*identity->groups), compare));
}

static int find_by_number(const char *name, uint32_t *out_gid)
{
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(name, &end, 10);
	if (*end || errno || number >= IDENTITY_NO_GROUP)
		return GPUSHARE_E_NOT_FOUND;
	*out_gid = (uint32_t)number;
	return GPUSHARE_OK;
}

static int find_by_name(const char *name, uint32_t *out_gid)
{
	struct group group, *found = NULL;
	char *room = NULL;
	int error = ERANGE;

	for (size_t size = 4096; error == ERANGE && size <= GROUP_ROOM_MAX; size *= 4) {
		char *grown = realloc(room, size);

		if (!grown)
			break;
		room = grown;
		error = getgrnam_r(name, &group, room, size, &found);
	}
	if (found)
		*out_gid = group.gr_gid;
	free(room);
	if (found)
		return GPUSHARE_OK;
	return !error || error == ENOENT || error == ESRCH ? GPUSHARE_E_NOT_FOUND : GPUSHARE_E_IO;
}

void identity_find_group(const char *name, struct identity_group *out_group)
{
	*out_group = (struct identity_group){.gid = IDENTITY_NO_GROUP};
	snprintf(out_group->name, sizeof(out_group->name), "%s", name);
	out_group->status = name_is_number(name) ? find_by_number(name, &out_group->gid)
						 : find_by_name(name, &out_group->gid);
}
