/* SPDX-License-Identifier: MIT */
#include "os/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol.h"

#define STATUS_ROOM 65536 /* of /proc/PID/status: more than 5000 groups */
#define GROUP_ROOM_MAX (1u << 20)
#define LOOKUPS 8 /* at a time: threads that read requests are fewer */

/* NULL: it can't be read. */
static char *read_status(int32_t pid)
{
	char path[64], *text = malloc(STATUS_ROOM);
	size_t length = 0;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (text && fd >= 0 && length < STATUS_ROOM - 1 &&
	       (got = read(fd, text + length, STATUS_ROOM - 1 - length)) > 0)
		length += (size_t)got;
	if (fd >= 0)
		close(fd);
	if (!text || !length) {
		free(text);
		return NULL;
	}
	text[length] = '\0';
	return text;
}

/* What follows "\nKEY:"; "" where it is not there. */
static const char *line_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) : "";
}

/* The second of the four numbers, the one by which the kernel judges. */
static bool is_effective(const char *line, uint32_t wanted)
{
	uint32_t real, effective;

	return sscanf(line, "%" SCNu32 " %" SCNu32, &real, &effective) == 2 && effective == wanted;
}

static int compare(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

/* A number that does not end before the text does is no whole one. */
static void parse_groups(struct identity *identity, const char *line)
{
	size_t room = strcspn(line, "\n") / 2 + 1;
	uint32_t *groups = malloc(room * sizeof(*groups));
	char *end;

	while (groups && *line && *line != '\n') {
		unsigned long group = strtoul(line, &end, 10);

		if (end != line && *end)
			groups[identity->count++] = (uint32_t)group;
		line = end + strspn(end, " \t");
		if (end == line && *end != '\n')
			break;
	}
	if (groups)
		qsort(groups, identity->count, sizeof(*groups), compare);
	identity->groups = groups;
}

void identity_read(struct identity *identity, const struct process *peer, uint32_t gid)
{
	char *text;

	*identity = (struct identity){.uid = peer->uid, .gid = gid};
	if (peer->pid <= 0 || !peer->started)
		return;
	text = read_status(peer->pid);
	/* Looked at last: it was that process all the time. */
	if (text && is_effective(line_of(text, "\nUid:"), peer->uid) &&
	    is_effective(line_of(text, "\nGid:"), gid) && process_runs(peer))
		parse_groups(identity, line_of(text, "\nGroups:"));
	free(text);
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

static int by_number(const char *name, uint32_t *out_gid)
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

/* Users whose group is being looked up: one look-up each. */
static struct {
	pthread_mutex_t lock;
	bool busy[LOOKUPS];
	uint32_t uids[LOOKUPS];
} asking = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Its place; -1: this user has one already, or there is none left. */
static int begin_asking(uint32_t uid)
{
	int place = -1;

	pthread_mutex_lock(&asking.lock);
	for (int i = LOOKUPS - 1; i >= 0; i--) {
		if (!asking.busy[i])
			place = i;
	}
	for (int i = 0; i < LOOKUPS; i++) {
		if (asking.busy[i] && asking.uids[i] == uid)
			place = -1;
	}
	if (place >= 0) {
		asking.busy[place] = true;
		asking.uids[place] = uid;
	}
	pthread_mutex_unlock(&asking.lock);
	return place;
}

static void end_asking(int place)
{
	pthread_mutex_lock(&asking.lock);
	asking.busy[place] = false;
	pthread_mutex_unlock(&asking.lock);
}

/* A directory service may take its time: one thread waits for it for each user, and the user's others are
 * told to try again. */
static int by_name(const char *name, uint32_t uid, uint32_t *out_gid)
{
	struct group group, *found = NULL;
	char *room = NULL;
	int error = ERANGE, place = begin_asking(uid);

	if (place < 0)
		return GPUSHARE_E_IO;
	for (size_t size = 4096; error == ERANGE && size <= GROUP_ROOM_MAX; size *= 4) {
		char *grown = realloc(room, size);

		if (!grown)
			break;
		room = grown;
		error = getgrnam_r(name, &group, room, size, &found);
	}
	if (found)
		*out_gid = group.gr_gid;
	end_asking(place);
	free(room);
	if (found)
		return GPUSHARE_OK;
	return !error || error == ENOENT || error == ESRCH ? GPUSHARE_E_NOT_FOUND : GPUSHARE_E_IO;
}

void identity_find_group(const char *name, uint32_t uid, struct identity_group *out_group)
{
	*out_group = (struct identity_group){.gid = IDENTITY_NO_GROUP};
	snprintf(out_group->name, sizeof(out_group->name), "%s", name);
	out_group->status = name_is_number(name) ? by_number(name, &out_group->gid)
						 : by_name(name, uid, &out_group->gid);
}
