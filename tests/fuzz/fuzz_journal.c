/* SPDX-License-Identifier: MIT */
/*
 * registry.state as anything might leave it: bytes, or whole changes of any content. What a registry
 * makes of it holds together, is written anew, and read back is the same.
 */
#include "judge.h"
#include "note.h"
#include "place.h"
#include "replay.h"

static void put(int file, const void *bytes, size_t size)
{
	FUZZ_MUST(write(file, bytes, size) == (ssize_t)size);
}

/* As the file has it: what journal_encode() makes of a State that this decodes to. */
static void put_state(int file, const gpushare_State *what)
{
	static uint8_t frame[JOURNAL_FRAME_MAX];

	put(file, frame, journal_encode(what, frame));
}

static void put_begin(int file)
{
	gpushare_State begin = {.which_change = gpushare_State_begin_tag};

	begin.change.begin.version = JOURNAL_VERSION;
	begin.change.begin.since = 1;
	journal_boot(begin.change.begin.boot);
	put_state(file, &begin);
}

/* The checksum of journal.c, for changes that journal_encode() would not make. */
static void put_frame(int file, const uint8_t *bytes, size_t size)
{
	uint32_t head[2] = {(uint32_t)size, 2166136261u ^ (uint32_t)size};

	for (size_t i = 0; i < size; i++)
		head[1] = (head[1] ^ bytes[i]) * 16777619u;
	put(file, head, sizeof(head));
	put(file, bytes, size);
}

static void write_file(struct fuzz_bytes *from)
{
	int file =
	    openat(place_open(), JOURNAL_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_MUST(file >= 0);
	if (fuzz_byte(from) % 4 == 0) {
		put(file, from->at, from->left);
	} else {
		put_begin(file);
		while (from->left) {
			size_t size;
			const uint8_t *bytes = fuzz_block(from, &size);

			put_frame(file, bytes, size);
		}
	}
	close(file);
}

static struct registry *read_back(void)
{
	struct registry *registry = registry_new(NULL);

	replay(registry, place_open());
	judge_registry(registry);
	return registry;
}

static void compare(const struct entry *one, const struct entry *other)
{
	FUZZ_MUST(other && one->info.generation == other->info.generation);
	FUZZ_MUST(!strcmp(one->info.name, other->info.name));
	FUZZ_MUST(!one->lease == !other->lease);
	FUZZ_MUST(!one->lease || !memcmp(one->lease->key, other->lease->key, GPUSHARE_LEASE_SIZE));
	FUZZ_MUST(one->info.attachers == other->info.attachers);
	FUZZ_MUST(one->untold == other->untold && one->info.in_limbo == other->info.in_limbo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes from = {data, size};
	struct registry *first, *second;
	const struct entry *entry;

	write_file(&from);
	first = read_back();
	journal_open(&first->journal, place_again());
	note_all(first);
	second = read_back();
	FUZZ_MUST(first->store.count == second->store.count);
	FUZZ_MUST(first->nameless == second->nameless);
	for (size_t at = 0; (entry = store_at(&first->store, at)); at++)
		compare(entry, store_at(&second->store, at));
	for (size_t at = 0, with = 0; (entry = limbo_after(first, &at));)
		compare(entry, limbo_after(second, &with));
	registry_free(first);
	registry_free(second);
	return 0;
}
