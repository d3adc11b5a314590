/* SPDX-License-Identifier: MIT */
/*
 * Interprocess events: two counters each, in a memfd that a process has for all of its own and that
 * those who open one take from /proc/PID/fd. A record takes the next number; who recorded says when
 * that is reached. Others can't look at what a stream here waits for, so a thread does while there
 * is such. Of a killed process others keep what they have open, and what it had recorded is never
 * reached.
 */
#include <sys/stat.h>

#include "base/cleanup.h"
#include "driver_event.h"
#include "driver_peer.h"

#define PAGE_MAGIC UINT64_C(0x6770757369706532)
#define PAGE_SLOTS 4096u /* one process's interprocess events: the next is refused */
#define WATCH_INTERVAL_US 50

struct slot {
	_Atomic uint64_t nonce;	   /* of the event; 0: there is none */
	_Atomic uint64_t recorded; /* how often, by whomever; never begins anew */
	_Atomic uint64_t reached;
};

struct page {
	uint64_t magic, nonce;
	struct slot slots[PAGE_SLOTS];
};

struct wire { /* the 64 bytes */
	uint64_t magic;
	int32_t pid;
	int32_t fd;
	uint64_t started;
	uint64_t page, event; /* nonces */
	uint64_t index;
	uint64_t shm; /* the owner's /dev/shm, over which a real driver goes */
	uint64_t unused;
};
_Static_assert(sizeof(struct wire) == CUDA_ABI_IPC_HANDLE_SIZE, "the handle's 64 bytes");

struct seen { /* another process's page; it stays mapped: waits look at it */
	struct seen *next;
	struct page *page;
};

struct pending { /* recorded here, not reached so far */
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
		slot->reached = slot->recorded; /* one that was never recorded is over */
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

/* Whether anything is left to look at. Under the lock. */
static bool watch_look(void)
{
	struct pending **link = &pendings;

	wait_look();
	while (*link) {
		struct pending *pending = *link;
		if (!wait_over(pending->after)) {
			link = &pending->next;
			continue;
		}
		slot_reach(pending->slot, pending->number);
		wait_drop(pending->after);
		*link = pending->next;
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

/* It takes none of the program's signals. */
static bool watch_start(void)
{
	sigset_t all, before;
	pthread_t thread;

	if (watched)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	watched = !pthread_create(&thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (watched)
		pthread_detach(thread);
	return watched;
}

bool slot_record(struct slot *slot, struct wait *after)
{
	struct pending *pending = wait_over(after) ? NULL : malloc(sizeof(*pending));

	if (!wait_over(after) && (!pending || !watch_start())) {
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

/* Without waiting for the thread's next look. */
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

static cu_result ipc_event_get(cu_ipc_event_handle *handle, cu_event event)
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

cu_result cuIpcGetEventHandle(cu_ipc_event_handle *handle, cu_event event)
{
	ANSWER_LOGGED(cuIpcGetEventHandle, NEED_CONTEXT, ipc_event_get(handle, event), 0, 0);
}

/* The owner's page, or why there is none. Of one that is here already nobody asks whether he lives. */
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
		return CU_OPERATING_SYSTEM; /* another uid's /proc, as for memory */
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

static cu_result ipc_event_open(cu_event *event, const cu_ipc_event_handle *handle)
{
	struct wire wire;
	struct page *page;

	memcpy(&wire, handle, sizeof(wire));
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

cu_result cuIpcOpenEventHandle(cu_event *event, cu_ipc_event_handle handle)
{
	ANSWER_LOGGED(cuIpcOpenEventHandle, NEED_CONTEXT, ipc_event_open(event, &handle), 0, 0);
}
