/* SPDX-License-Identifier: MIT */
#include "client_index.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "client_fds.h"

#define WORTH_IT 2 /* look-ups over the socket that cost as much as fetching the index */

void index_drop(struct index_view *view)
{
	if (view->page)
		munmap((void *)view->page, sizeof(*view->page));
	*view = (struct index_view){.page = NULL};
}

/* As the registry counts what is left: in seconds that have begun. */
static uint32_t seconds_left(int64_t deadline_ns)
{
	struct timespec now;
	int64_t left_ns;

	if (deadline_ns == INT64_MAX || clock_gettime(CLOCK_MONOTONIC, &now))
		return 0;
	left_ns = deadline_ns - (now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
	return left_ns > 0 ? (uint32_t)((left_ns + 999999999) / 1000000000) : 0;
}

static void expand(const struct index_record *from, record *to)
{
	*to = (record){.ttl_left_s = seconds_left(from->deadline_ns)};
#define F(type, field) to->field = from->field;
	INDEX_FIELDS(F, F)
#undef F
	memcpy(to->name, from->name, strnlen(from->name, sizeof(to->name) - 1));
	memcpy(to->owner_command, from->owner_command, sizeof(to->owner_command));
	memcpy(to->device_uuid, from->device_uuid, sizeof(to->device_uuid));
	to->tags_count = (pb_size_t)(from->tags_count < INDEX_TAGS ? from->tags_count : INDEX_TAGS);
	memcpy(to->tags, from->tags, to->tags_count * sizeof(*to->tags));
}

bool index_look_up(const struct index_view *view, const struct client *client, const char *name,
		   record *out_found)
{
	struct index_record found;

	/* Closed after the record was read, it was right when it was read. */
	if (!view->page || client->fd < 0 || view->fd_inode != client->fd_inode ||
	    !index_is_live(view->page) || !index_find(view->page, name, &found))
		return false;
	expand(&found, out_found);
	return true;
}

void index_asked(struct index_view *view, struct client *client)
{
	_cleanup_close_ int fd = -1;
	const struct index_page *page;
	struct stat is;

	if (client->fd < 0 || view->fd_inode == client->fd_inode || ++view->asked < WORTH_IT)
		return;
	index_drop(view);
	if (client_page(client, FDS_INDEX, &fd) != GPUSHARE_OK)
		fd = -1;
	view->fd_inode = client->fd >= 0 ? client->fd_inode : 0;
	if (fd < 0 || fstat(fd, &is) || is.st_size != (off_t)sizeof(*page))
		return;
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return;
	view->page = page;
	if (page->version == INDEX_VERSION && page->size == sizeof(*page))
		return;
	munmap((void *)page, sizeof(*page));
	view->page = NULL;
}
