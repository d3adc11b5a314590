/* SPDX-License-Identifier: MIT */
/*
 * Choice of addresses. "Device pointers" are CPU addresses. Each process takes them from its own
 * slot, chosen by pid. So a process's pointer is invalid in another process, and an importer of VMM
 * memory finds the owner's address free. With GPUSHARE_SIM_SLOT processes use the same addresses,
 * as with real drivers.
 */
#include <sys/random.h>

#include "driver_sim.h"

#define ADDRESS_FIRST UINT64_C(0x200000000000)
#define ADDRESS_SLOT (UINT64_C(32) << 30)
#define ADDRESS_TRIES 64 /* occupied places to pass over */

/* Next address in one half of the slot; under the lock. Pools have their own half, because their
 * memory stays at its address when a context ends. */
struct part {
	uint64_t start, cursor;
};
static struct part ordinary, pooled = {.start = ADDRESS_SLOT / 2};

static void *address_map(uint64_t hint, uint64_t size)
{
	void *address = mmap((void *)(uintptr_t)hint, size, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return address == MAP_FAILED ? NULL : address;
}

/* Map more than needed, then unmap both ends: this works in any address space. */
static void *address_anywhere(uint64_t size, uint64_t alignment)
{
	char *address = address_map(0, size + alignment);

	if (!address)
		return NULL;
	uint64_t skip = -(uint64_t)(uintptr_t)address & (alignment - 1);
	if (skip)
		munmap(address, skip);
	munmap(address + skip + size, alignment - skip);
	return address + skip;
}

static uint64_t address_next(struct part *part, uint64_t size, uint64_t alignment)
{
	uint64_t number = (uint64_t)(state.slot < 0 ? getpid() % SIM_ADDRESS_SLOTS : state.slot);
	uint64_t slot = ADDRESS_FIRST + number * ADDRESS_SLOT;

	part->cursor = (part->cursor + alignment - 1) & ~(alignment - 1);
	if (part->cursor + size > ADDRESS_SLOT / 2)
		part->cursor = 0;
	uint64_t hint = slot + part->start + part->cursor;
	part->cursor += size;
	return hint;
}

/* After a primary context ends, later allocations reuse the addresses of its memory. Under the
 * lock. */
void address_again(void)
{
	ordinary.cursor = 0;
}

static void *address_in(struct part *part, uint64_t size, uint64_t alignment)
{
	for (int i = 0; i < ADDRESS_TRIES; i++) {
		uint64_t hint = address_next(part, size, alignment);
		void *address = address_map(hint, size);

		if (address == (void *)(uintptr_t)hint)
			return address;
		if (address)
			munmap(address, size);
	}
	return NULL;
}

/* Reserve addresses without any access. NULL: the address space is full. */
void *address_reserve(uint64_t size, uint64_t alignment, uint64_t want)
{
	void *address = want ? address_map(want, size) : address_in(&ordinary, size, alignment);

	if (address && !((uintptr_t)address & (alignment - 1)))
		return address;
	if (address)
		munmap(address, size);
	return address_anywhere(size, alignment);
}

void *address_reserve_pooled(uint64_t size)
{
	void *address = address_in(&pooled, size, SIM_BLOCK);

	return address ? address : address_anywhere(size, SIM_BLOCK);
}

/* Return true if the address lies in some process's slot: it may be or have been a device
 * pointer. */
bool address_is_ours(uint64_t address)
{
	return address - ADDRESS_FIRST < ADDRESS_SLOT * SIM_ADDRESS_SLOTS;
}

int address_memfd(uint64_t size)
{
	int fd = memfd_create("gpushare-sim", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

uint64_t address_nonce(void)
{
	uint64_t nonce = 0;

	if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != (ssize_t)sizeof(nonce))
		nonce = (uint64_t)getpid() << 32;
	return nonce;
}
