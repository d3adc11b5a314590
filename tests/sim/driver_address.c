/* SPDX-License-Identifier: MIT */
/*
 * Where memory goes. "Device pointers" are CPU addresses, and each process hands them out of a slot
 * of its own (by pid), so that one process's pointer means nothing in another and an importer of
 * VMM memory finds the owner's address free. GPUSHARE_SIM_SLOT is what real drivers do: the same
 * addresses in each.
 */
#include <sys/random.h>

#include "driver_sim.h"

#define ADDRESS_FIRST UINT64_C(0x200000000000)
#define ADDRESS_SLOT (UINT64_C(32) << 30)
#define ADDRESS_LOW UINT64_C(0x40000000)
#define ADDRESS_TRIES 64 /* places that are taken, passed over */

/* What half a slot has given; under the lock. Pools have the other half: their memory stays where
 * it is when a context goes. */
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

/* More than is needed, then the ends cut off: any address space can give that. */
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

/* What went with a primary context leaves its addresses to what comes after it. Under the lock. */
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

/* A reservation that nothing may touch yet; NULL when the address space is full. */
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

void *address_reserve_low(uint64_t size)
{
	for (uint64_t hint = ADDRESS_LOW; hint + size <= UINT64_C(1) << 32; hint += SIM_BLOCK) {
		void *address = address_map(hint, size);
		if (address == (void *)(uintptr_t)hint)
			return address;
		if (address)
			munmap(address, size);
	}
	return NULL;
}

/* Could this have been a device pointer of some process? */
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
