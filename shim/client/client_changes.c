/* SPDX-License-Identifier: MIT */
#include "client_changes.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "client_fds.h"

/* Nothing is on its way, and no end: the registry says nothing that it isn't asked for. */
static bool is_connected(const struct client *client)
{
	struct stat is;
	char byte;

	return client->fd >= 0 && !fstat(client->fd, &is) && is.st_dev == client->fd_device &&
	       is.st_ino == client->fd_inode &&
	       recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void changes_drop(struct changes_view *view)
{
	if (view->page)
		munmap(view->page, sizeof(*view->page));
	*view = (struct changes_view){.page = NULL};
}

bool changes_asked(const struct changes_view *view, const struct client *client)
{
	return client->fd >= 0 && view->fd_inode == client->fd_inode;
}

bool changes_says_left(const struct changes_view *view, uint64_t generation)
{
	return view->page &&
	       atomic_load(&view->page->left[generation % CHANGES_SLOTS]) == generation;
}

/*
 * It came over another socket than the answers, but from the same registry: this one was serving
 * both before, and still does. A successor serves neither before it has ended.
 */
void changes_fetch(struct changes_view *view, struct client *client)
{
	_cleanup_close_ int fd = -1;
	struct stat is;
	void *page;

	if (changes_asked(view, client))
		return;
	changes_drop(view);
	if (client_page(client, FDS_CHANGES, &fd) != GPUSHARE_OK)
		fd = -1;
	view->fd_inode = client->fd >= 0 ? client->fd_inode : 0;
	if (fd < 0 || fstat(fd, &is) || is.st_size != (off_t)sizeof(*view->page))
		return;
	page = mmap(NULL, sizeof(*view->page), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return;
	view->page = page;
}

bool changes_read(const struct changes_view *view, const struct client *client, const char *name,
		  uint64_t *out_count)
{
	if (!view->page || view->fd_inode != client->fd_inode || !is_connected(client))
		return false;
	*out_count = atomic_load(&view->page->count[changes_slot(name)]);
	return true;
}
