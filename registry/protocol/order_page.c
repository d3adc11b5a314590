/* SPDX-License-Identifier: MIT */
#include "order_page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpushare.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct order_page *map(int fd)
{
	struct order_page *page =
	    mmap(NULL, ORDER_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

int order_page_make(uint64_t generation, uint64_t id)
{
	int fd = memfd_create("gpushare-order", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct order_page *page = NULL;

	if (fd < 0)
		return -1;
	if (!ftruncate(fd, ORDER_PAGE_SIZE) && !fcntl(fd, F_ADD_SEALS, SEALS))
		page = map(fd);
	if (!page) {
		close(fd);
		return -1;
	}
	page->magic = ORDER_MAGIC;
	page->version = ORDER_VERSION;
	page->slots = ORDER_SLOTS;
	page->generation = generation;
	page->id = id;
	atomic_store(&page->state, ORDER_LIVE);
	order_page_unmap(page);
	return fd;
}

/* If somebody could shorten a mapped file, SIGBUS would end a process that touches the missing
 * part. */
static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat about;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &about) &&
	       about.st_size == ORDER_PAGE_SIZE;
}

int order_page_map(int fd, uint64_t generation, struct order_page **out_page)
{
	struct order_page *page;

	if (!is_sealed(fd))
		return GPUSHARE_E_PROTOCOL;
	page = map(fd);
	if (!page)
		return GPUSHARE_E_NO_MEMORY;
	if (page->magic != ORDER_MAGIC || page->version != ORDER_VERSION ||
	    page->slots != ORDER_SLOTS || (generation && page->generation != generation)) {
		order_page_unmap(page);
		return GPUSHARE_E_PROTOCOL;
	}
	*out_page = page;
	return GPUSHARE_OK;
}

void order_page_unmap(struct order_page *page)
{
	if (page)
		munmap(page, ORDER_PAGE_SIZE);
}

uint64_t order_published(const struct order_page *page)
{
	return order_number(atomic_load_explicit(&page->published, memory_order_acquire));
}

/* Either sign is enough. The bit is set first, so for a moment only the bit is set. A late write by
 * a GPU may clear the bit, so then only the state says it. */
bool order_is_gone(const struct order_page *page)
{
	return atomic_load_explicit(&page->state, memory_order_acquire) == ORDER_GONE ||
	       (atomic_load(&page->published) & ORDER_GONE_BIT);
}

bool order_raise(_Atomic uint64_t *word, uint64_t number)
{
	uint64_t before = atomic_load(word);

	do {
		if (order_reaches(before, number))
			return false;
	} while (!atomic_compare_exchange_weak(word, &before, number | (before & ORDER_GONE_BIT)));
	return true;
}

uint64_t order_join(struct order_page *page, uint32_t slot, uint64_t process)
{
	struct order_slot *mine = &page->slot[slot];
	uint64_t first = order_published(page), reclaimed;
	uint32_t top = atomic_load(&page->top);

	if (!first)
		first = 1;
	atomic_store(&mine->stack, 0);
	atomic_store(&mine->process, process);
	atomic_store(&mine->final, 0);
	atomic_store(&mine->released, first - 1);
	atomic_store(&mine->state, ORDER_SLOT_ACTIVE);
	while (top <= slot && !atomic_compare_exchange_weak(&page->top, &top, slot + 1))
		;
	/* All these accesses are seq_cst, so either this thread sees the new `reclaimed`, or the
	 * publisher that reclaims sees the slot. */
	reclaimed = order_number(atomic_load(&page->reclaimed));
	if (order_reaches(reclaimed, first)) {
		first = reclaimed + 1;
		order_raise(&mine->released, reclaimed);
	}
	return first;
}

void order_rejoin(struct order_page *page, uint32_t slot, uint64_t process)
{
	struct order_slot *mine = &page->slot[slot];

	atomic_store(&mine->stack, 0);
	atomic_store(&mine->process, process);
	atomic_store(&mine->final, 0);
	atomic_fetch_and(&mine->released, ~ORDER_GONE_BIT);
	atomic_store(&mine->state, ORDER_SLOT_ACTIVE);
}

void order_begin(struct order_page *page, uint64_t publisher)
{
	uint64_t last = order_published(page);

	if (atomic_load(&page->publisher) != publisher) {
		atomic_store(&page->publisher_stack, 0);
		atomic_store(&page->publisher, publisher);
		atomic_store(&page->next, last);
		atomic_store(&page->turn, ORDER_TURN_FREE);
		atomic_store(&page->late, 0);
		atomic_store(&page->means, 0);
	}
	atomic_fetch_and(&page->published, ~ORDER_GONE_BIT);
	atomic_store(&page->state, ORDER_LIVE);
}

static bool mark(_Atomic uint64_t *word)
{
	if (atomic_fetch_or(word, ORDER_GONE_BIT) & ORDER_GONE_BIT)
		return false;
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return true;
}

/* Sets ORDER_GONE_BIT in `published` before the state, so that a reader that sees the state also
 * sees the last published number. */
bool order_mark_gone(struct order_page *page)
{
	bool anew = mark(&page->published);

	atomic_store(&page->state, ORDER_GONE);
	return anew;
}

bool order_mark_left(struct order_page *page, uint32_t slot)
{
	bool anew = mark(&page->slot[slot].released);

	atomic_store(&page->slot[slot].state, ORDER_SLOT_LEFT);
	return anew;
}
