/* SPDX-License-Identifier: MIT */
/*
 * registry.state in any condition: raw bytes, or whole records of any content. The registry that
 * loads it must be consistent, and loading it again must give the same.
 */
#include "freed.h"
#include "judge.h"
#include "persist/records.h"
#include "persist/persist.h"
#include "place.h"

static void put(int file, const void *bytes, size_t size)
{
	FUZZ_MUST(write(file, bytes, size) == (ssize_t)size);
}

/* Write a record in a slot of the largest size. */
static void put_record(int file, uint8_t kind, size_t size, uint64_t stamp,
		       uint8_t slot[RECORDS_UNITS_MAX * RECORDS_UNIT])
{
	records_seal(slot, &(struct records_head){.size = (uint16_t)size,
						  .kind = kind,
						  .units = RECORDS_UNITS_MAX,
						  .stamp = stamp});
	put(file, slot, RECORDS_UNITS_MAX * RECORDS_UNIT);
}

static void put_begin(int file)
{
	gpushare_State begin = {.which_change = gpushare_State_header_tag};
	uint8_t slot[RECORDS_UNITS_MAX * RECORDS_UNIT] = {0};
	size_t size;

	begin.change.header.version = RECORDS_VERSION;
	begin.change.header.since = 1;
	records_boot(begin.change.header.boot);
	size = records_frame(&begin, 1, slot);
	put_record(file, gpushare_State_header_tag, size - sizeof(struct records_head), 1, slot);
}

/*
 * Write a record that records_frame() would not make. Its kind follows from its first byte, as in
 * an encoded record.
 */
static void put_bytes(int file, const uint8_t *bytes, size_t size, uint64_t stamp)
{
	uint8_t slot[RECORDS_UNITS_MAX * RECORDS_UNIT] = {0};

	if (size > gpushare_State_size)
		size = gpushare_State_size;
	memcpy(slot + sizeof(struct records_head), bytes, size);
	put_record(file, size ? bytes[0] / 8 : 0, size, stamp, slot);
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

	registry->records = records_open(place_again());
	load_records(registry);
	save_all(registry);
	judge_registry(registry);
	return registry;
}

static void compare(const struct entry *one, const struct entry *other)
{
	FUZZ_MUST(other && one->info.generation == other->info.generation);
	FUZZ_MUST(!strcmp(one->name, other->name));
	FUZZ_MUST(!one->session == !other->session);
	FUZZ_MUST(!one->session ||
		  !memcmp(one->session->key, other->session->key, GPUSHARE_SESSION_KEY_SIZE));
	FUZZ_MUST(one->info.attachers == other->info.attachers);
	FUZZ_MUST(one->info.unsynced == other->info.unsynced &&
		  one->info.deferred == other->info.deferred);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes from = {data, size};
	struct registry *first, *second;
	const struct entry *entry;

	write_file(&from);
	first = read_back();
	second = read_back(); /* from the file that the first one wrote */
	FUZZ_MUST(first->state.users.total.held[LIMIT_names] ==
		  second->state.users.total.held[LIMIT_names]);
	FUZZ_MUST(first->state.users.total.held[LIMIT_deferred] ==
		  second->state.users.total.held[LIMIT_deferred]);
	for (entry = store_next(&first->state.store, 0); entry;
	     entry = store_next(&first->state.store, entry->info.generation))
		compare(entry, store_find_generation(&second->state.store, entry->info.generation));
	registry_free(first);
	registry_free(second);
	return 0;
}
