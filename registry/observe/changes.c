/* SPDX-License-Identifier: MIT */
#include "changes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "os/log.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* What one registry counts is never taken for what the one before it did. */
static bool begin(struct changes_page *page)
{
	uint64_t first;

	if (getrandom(&first, sizeof(first), GRND_NONBLOCK) != (ssize_t)sizeof(first))
		return false;
	for (size_t i = 0; i < CHANGES_SLOTS; i++)
		atomic_store(&page->count[i], first);
	return true;
}

void changes_init(struct changes *changes)
{
	struct changes_page *page = MAP_FAILED;

	*changes = (struct changes){
	    .fd = memfd_create("gpushare-changes", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
	if (changes->fd >= 0 && !ftruncate(changes->fd, sizeof(*page)))
		page =
		    mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, changes->fd, 0);
	if (page != MAP_FAILED && begin(page) && !fcntl(changes->fd, F_ADD_SEALS, SEALS)) {
		changes->page = page;
		return;
	}
	log_line("no page of changes: clients ask each time that they attach");
	if (page != MAP_FAILED)
		munmap(page, sizeof(*page));
	changes_finish(changes);
}

void changes_finish(struct changes *changes)
{
	if (changes->page)
		munmap(changes->page, sizeof(*changes->page));
	if (changes->fd >= 0)
		close(changes->fd);
	*changes = (struct changes){.fd = -1};
}

void changes_mark(struct changes *changes, const char *name)
{
	if (changes->page)
		atomic_fetch_add(&changes->page->count[changes_slot(name)], 1);
}

void changes_left(struct changes *changes, uint64_t generation, bool left)
{
	_Atomic uint64_t *at;

	if (!changes->page)
		return;
	at = &changes->page->left[generation % CHANGES_SLOTS];
	if (left)
		atomic_store(at, generation);
	else if (atomic_load(at) == generation)
		atomic_store(at, 0);
}
