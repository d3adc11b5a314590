/* SPDX-License-Identifier: MIT */
/*
 * Interprocess events: two counters each. A process has one memfd for all its own events. Other
 * processes that open an event map that memfd, through /proc/PID/fd. A record takes the next number
 * of `recorded`, and the recording process sets `reached` when its stream gets there. Other
 * processes can't see what a stream here waits for, so a thread checks that while records are
 * pending. If a process is killed, others keep the events that they have open, and its pending
 * records are never reached.
 */
#include <sys/stat.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "driver_event.h"
#include "driver_peer.h"
#include "driver_work.h"

#define PAGE_MAGIC UINT64_C(0x6770757369706532)
#define PAGE_SLOTS 4096u /* events of one process: more are refused */
#define WATCH_INTERVAL_US 50

struct slot {
	_Atomic uint64_t nonce;	   /* of the event; 0: the slot is free */
	_Atomic uint64_t recorded; /* number of records by all processes; never reset */
	_Atomic uint64_t reached;
};

struct page {
	uint64_t magic, nonce;
	struct slot slots[PAGE_SLOTS];
};

struct wire { /* contents of a handle */
	uint64_t magic;
	int32_t pid;
	int32_t fd;
	uint64_t started;
	uint64_t page, event; /* nonces */
	uint64_t index;
	uint64_t shm; /* device of the owner's /dev/shm, which a real driver uses */
	uint64_t unused;
};
_Static_assert(sizeof(struct wire) == CUDA_ABI_IPC_HANDLE_SIZE, "the handle's 64 bytes");

struct seen { /* another process's page; stays mapped, since waits read it */
	struct seen *next;
	struct page *page;
};

struct pending { /* a record of this process that is not reached */
	struct pending *next;
	struct slot *slot;
	uint64_t number;
	struct wait *after;
};

static struct page *own;
static int own_fd = -1;
static struct seen *others;
static struct pending *pendings;
static bool watched;

static struct page *page_map(int fd)
{
	void *page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

static bool page_make(void)
{
	int fd = own ? -1 : address_memfd(sizeof(*own));

	if (own || fd < 0)
		return own != NULL;
	own = page_map(fd);
	if (!own) {
		close(fd);
		return false;
	}
	own->magic = PAGE_MAGIC;
	own->nonce = address_nonce();
	own_fd = fd;
	return true;
}

struct slot *slot_take(void)
{
	static unsigned int next;

	for (unsigned int tried = 0; page_make() && tried < PAGE_SLOTS; tried++) {
		struct slot *slot = &own->slots[next++ % PAGE_SLOTS];
		if (slot->nonce)
			continue;
		slot->reached = slot->recorded; /* an event that was never recorded is done */
		slot->nonce = address_nonce() | 1;
		return slot;
	}
	return NULL;
}

void slot_give(struct slot *slot)
{
	slot->nonce = 0;
}

static void slot_reach(struct slot *slot, uint64_t number)
{
	uint64_t before = slot->reached;

	while (before < number && !atomic_compare_exchange_weak(&slot->reached, &before, number))
		;
}

/* Mark the records that are reached. Return true if others are pending. Under the lock. */
static bool watch_look(void)
{
	struct pending *pending, *next;

	wait_look();
	LL_FOREACH_SAFE (pendings, pending, next) {
		if (!wait_over(pending->after))
			continue;
		slot_reach(pending->slot, pending->number);
		wait_drop(pending->after);
		LL_DELETE(pendings, pending);
		free(pending);
	}
	return pendings != NULL;
}

static void *watch(void *unused)
{
	for (;; usleep(WATCH_INTERVAL_US)) {
		STATE_LOCKED;
		watched = watch_look();
		if (!watched)
			return NULL;
	}
}

bool slot_record(struct slot *slot, struct wait *after)
{
	struct pending *pending = wait_over(after) ? NULL : malloc(sizeof(*pending));

	if (!wait_over(after) && (!pending || !work_start(watch, &watched))) {
		wait_drop(after);
		free(pending);
		return false;
	}
	uint64_t number = atomic_fetch_add(&slot->recorded, 1) + 1;
	if (pending) {
		*pending = (struct pending){pendings, slot, number, after};
		pendings = pending;
		return true;
	}
	wait_drop(after);
	slot_reach(slot, number);
	return true;
}

/* Look at the pending records here, so that the answer does not depend on the thread's last
 * look. */
bool slot_over(const struct slot *slot)
{
	watch_look();
	return slot->reached >= slot->recorded;
}

struct wait *slot_wait(const struct slot *slot, struct wait *first)
{
	return wait_new_counter(first, &slot->reached, slot->recorded);
}

static uint64_t shm_device(void)
{
	struct stat is;

	return stat("/dev/shm", &is) ? 0 : (uint64_t)is.st_dev;
}

CALL_LOGGED(cuIpcGetEventHandle, NEED_CONTEXT, (cu_ipc_event_handle * handle, cu_event event),
	    (handle, event), 0, 0)
{
	if (!handle)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct cu_event_opaque *found = event_find(event);
	if (!found || !found->slot || found->opened)
		return CU_INVALID_HANDLE;
	struct wire wire = {
	    .magic = PAGE_MAGIC,
	    .pid = getpid(),
	    .fd = own_fd,
	    .started = peer_start(getpid()),
	    .page = own->nonce,
	    .event = found->slot->nonce,
	    .index = (uint64_t)(found->slot - own->slots),
	    .shm = shm_device(),
	};
	memcpy(handle, &wire, sizeof(wire));
	return CU_OK;
}

/* Return the owner's page, or the reason why it can't be opened. A page that is already mapped is
 * returned even if the owner has ended. */
static cu_result ipc_event_page(const struct wire *wire, struct page **out_page)
{
	for (const struct seen *seen = others; seen; seen = seen->next) {
		*out_page = seen->page;
		if (seen->page->nonce == wire->page)
			return CU_OK;
	}
	if (peer_start(wire->pid) != wire->started)
		return CU_INVALID_HANDLE;
	_cleanup_close_ int fd = peer_open(wire->pid, wire->fd);
	struct stat is;
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return CU_OPERATING_SYSTEM; /* another uid's /proc is closed, as for memory */
	if (fd < 0 || fstat(fd, &is) || is.st_size != (off_t)sizeof(struct page))
		return CU_INVALID_HANDLE;
	struct seen *seen = malloc(sizeof(*seen));
	struct page *page = seen ? page_map(fd) : NULL;
	if (!page) {
		free(seen);
		return CU_MAP_FAILED;
	}
	if (page->magic != PAGE_MAGIC || page->nonce != wire->page) {
		munmap(page, sizeof(*page));
		free(seen);
		return CU_INVALID_HANDLE;
	}
	*seen = (struct seen){others, page};
	others = seen;
	*out_page = page;
	return CU_OK;
}

CALL_LOGGED(cuIpcOpenEventHandle, NEED_CONTEXT, (cu_event * event, cu_ipc_event_handle handle),
	    (event, handle), 0, 0)
{
	struct wire wire;
	struct page *page;

	memcpy(&wire, &handle, sizeof(wire));
	if (!event || wire.magic != PAGE_MAGIC || wire.pid <= 0 || wire.index >= PAGE_SLOTS)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	if (wire.pid == getpid() && wire.started == peer_start(getpid()))
		return CU_INVALID_CONTEXT;
	if (wire.shm != shm_device())
		return CU_MAP_FAILED;
	cu_result result = ipc_event_page(&wire, &page);
	if (result == CU_OK && page->slots[wire.index].nonce != wire.event)
		result = CU_INVALID_HANDLE;
	if (result != CU_OK)
		return result;
	struct cu_event_opaque model = {
	    .context = context_current(),
	    .flags = CU_EVENT_SHARED | CU_EVENT_NO_TIMING,
	    .slot = &page->slots[wire.index],
	    .opened = true,
	};
	cu_event made = event_add(&model);
	if (!made)
		return CU_OUT_OF_MEMORY;
	*event = made;
	return CU_OK;
}
