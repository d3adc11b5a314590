/* SPDX-License-Identifier: MIT */
/*
 * registry.state as anything might leave it: bytes, or whole records of any content. What a registry
 * makes of it holds together, and read again is the same.
 */
#include "judge.h"
#include "save.h"
#include "place.h"
#include "load.h"

static void put(int file, const void *bytes, size_t size)
{
	FUZZ_MUST(write(file, bytes, size) == (ssize_t)size);
}

/* Slots of the largest size, in one chunk. */
#define UNITS (RECORDS_CLASSES - 1)

/* One after the other, whatever their slots are. */
static void put_frame(int file, const uint8_t *frame, size_t size)
{
	static uint8_t slot[UNITS * RECORDS_UNIT];

	memset(slot, 0, sizeof(slot));
	memcpy(slot, frame, size);
	put(file, slot, sizeof(slot));
}

static void put_begin(int file)
{
	gpushare_State begin = {.which_change = gpushare_State_begin_tag};
	uint32_t head[RECORDS_UNIT / sizeof(uint32_t)] = {UNITS};
	uint8_t frame[RECORDS_FRAME_MAX];

	begin.change.begin.version = RECORDS_VERSION;
	begin.change.begin.since = 1;
	records_boot(begin.change.begin.boot);
	put(file, head, sizeof(head));
	put_frame(file, frame, records_frame(&begin, 1, frame));
}

/* A record's head, for changes that records_frame() would not make. Its kind is what its first byte says, as
 * where it is encoded. */
static void put_bytes(int file, const uint8_t *bytes, size_t size, uint64_t stamp)
{
	struct records_head head = {.stamp = stamp};
	uint8_t frame[RECORDS_FRAME_MAX];
	uint32_t sum;

	if (size > sizeof(frame) - sizeof(head))
		size = sizeof(frame) - sizeof(head);
	head.size = (uint16_t)size;
	head.kind = size ? bytes[0] / 8 : 0;
	memcpy(frame, &head, sizeof(head));
	memcpy(frame + sizeof(head), bytes, size);
	size += sizeof(head) - sizeof(sum);
	sum = 2166136261u ^ (uint32_t)size;
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ frame[sizeof(sum) + i]) * 16777619u;
	memcpy(frame, &sum, sizeof(sum));
	put_frame(file, frame, sizeof(sum) + size);
}

static void write_file(struct fuzz_bytes *from)
{
	int file =
	    openat(instance_open(), RECORDS_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t stamp = 1;

	FUZZ_MUST(file >= 0);
	if (fuzz_byte(from) % 4 == 0) {
		put(file, from->at, from->left);
	} else {
		put_begin(file);
		while (from->left) {
			size_t size;
			const uint8_t *bytes = fuzz_block(from, &size);

			put_bytes(file, bytes, size, ++stamp);
		}
	}
	close(file);
}

static struct registry *read_back(void)
{
	struct registry *registry = registry_new();

	records_open(&registry->records, place_again());
	if (!load_records(registry))
		save_all(registry);
	judge_registry(registry);
	return registry;
}

static void compare(const struct entry *one, const struct entry *other)
{
	FUZZ_MUST(other && one->info.generation == other->info.generation);
	FUZZ_MUST(!strcmp(one->info.name, other->info.name));
	FUZZ_MUST(!one->session == !other->session);
	FUZZ_MUST(!one->session ||
		  !memcmp(one->session->key, other->session->key, GPUSHARE_SESSION_KEY_SIZE));
	FUZZ_MUST(one->info.attachers == other->info.attachers);
	FUZZ_MUST(one->unsynced == other->unsynced && one->info.in_limbo == other->info.in_limbo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes from = {data, size};
	struct registry *first, *second;
	const struct entry *entry;

	write_file(&from);
	first = read_back();
	second = read_back(); /* from the same file, without what was of no use */
	FUZZ_MUST(first->store.count == second->store.count);
	FUZZ_MUST(first->store.nameless == second->store.nameless);
	for (entry = store_after(&first->store, ""); entry;
	     entry = store_after(&first->store, entry->info.name))
		compare(entry, store_find(&second->store, entry->info.name));
	for (entry = store_deferred_after(&first->store, 0); entry;
	     entry = store_deferred_after(&first->store, entry->info.generation))
		compare(entry, store_find_deferred(&second->store, entry->info.generation));
	registry_free(first);
	registry_free(second);
	return 0;
}
