/* SPDX-License-Identifier: MIT */
/* The registry's shared pages: changes of names, and the index, which answers a lookup without a
 * request. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "client_internal.h"
#include "index.h"

#define WORTH_IT 2 /* lookups over the socket that cost as much as fetching the index */

static void unmap(const void *page, size_t size)
{
	if (page)
		munmap((void *)(uintptr_t)page, size);
}

void client_drop_pages(struct client *client)
{
	const struct client_pages were = client->pages;

	client->pages = (struct client_pages){.changes = NULL};
	unmap(were.changes, sizeof(*were.changes));
	unmap(were.index, sizeof(*were.index));
}

/*
 * The page comes over a second connection, but from the same registry as the answers to requests.
 * That registry still runs, because the connection for requests is open. A successor opens its
 * sockets only after that registry has ended.
 */
static const void *fetch(struct client *client, enum fds_verb verb, size_t size)
{
	_cleanup_close_ int fd = -1;
	struct stat is;
	void *page;

	if (client_page(client, verb, &fd) != GPUSHARE_OK || fstat(fd, &is) ||
	    is.st_size != (off_t)size)
		return NULL;
	page = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

void client_fetch_changes(struct client *client)
{
	const struct changes_page *page;

	if (client_has_asked_changes(client))
		return;
	page = fetch(client, FDS_CHANGES, sizeof(*page)); /* may drop the pages */
	client->pages.changes = page;
	client->pages.has_asked_changes = client->socket.fd >= 0;
}

bool client_has_asked_changes(const struct client *client)
{
	return client->pages.has_asked_changes;
}

bool client_read_changes(const struct client *client, const char *name, uint64_t *out_count)
{
	const struct changes_page *page = client->pages.changes;
	char byte;

	/* EAGAIN: the registry runs. After an end, an error or unread bytes, ask the registry. */
	if (!page || !client_socket_is_ours(&client->socket) ||
	    recv(client->socket.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
		return false;
	*out_count = atomic_load(&page->count[changes_slot(name)]);
	return true;
}

bool client_has_left(const struct client *client, uint64_t generation)
{
	const struct changes_page *page = client->pages.changes;

	return page && atomic_load(&page->left[generation % CHANGES_SLOTS]) == generation;
}

/* Rounded up, as in the registry's answers. */
static uint32_t seconds_left(int64_t deadline_ns)
{
	const struct timespec now = monotonic_now();
	int64_t left_ns;

	if (deadline_ns == INT64_MAX)
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

bool client_look_up(const struct client *client, const char *name, record *out_found)
{
	const struct index_page *page = client->pages.index;
	struct index_record found;

	/* If the registry ends now, the record was still right when it was read. */
	if (!page || !index_is_live(page) || !index_find(page, name, &found))
		return false;
	expand(&found, out_found);
	return true;
}

void client_has_looked_up(struct client *client)
{
	const struct index_page *page;

	if (client->socket.fd < 0 || client->pages.has_asked_index ||
	    ++client->pages.lookups < WORTH_IT)
		return;
	page = fetch(client, FDS_INDEX, sizeof(*page));
	if (page && (page->version != INDEX_VERSION || page->size != sizeof(*page))) {
		unmap(page, sizeof(*page));
		page = NULL;
	}
	client->pages.index = page;
	client->pages.has_asked_index = client->socket.fd >= 0;
}
