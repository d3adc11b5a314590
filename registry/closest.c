/* SPDX-License-Identifier: MIT */
#include "closest.h"

#include <string.h>

#include "access.h"

#define WORD 64
#define WORDS (GPUSHARE_NAME_MAX / WORD + 1)

/* Of each byte, where in the name it stands: a bit a place. */
struct wanted {
	uint64_t places[256][WORDS];
	size_t length;
};

/* One column of one word of rows: which of them are one more, or one less, than the row above. */
struct column {
	uint64_t more, less;
};

static void want(struct wanted *wanted, const char *name)
{
	memset(wanted, 0, sizeof(*wanted));
	for (; name[wanted->length]; wanted->length++)
		wanted->places[(unsigned char)name[wanted->length]][wanted->length / WORD] |=
		    UINT64_C(1) << wanted->length % WORD;
}

/* Myers' bit-vectors: `step` is how much the row above grew from the last column to this one. Returns how
 * much the row `last` does. */
static int next_column(struct column *column, uint64_t equal, int step, unsigned int last)
{
	uint64_t vertical = equal | column->less, horizontal, grows, shrinks;
	int out;

	equal |= step < 0;
	horizontal = (((equal & column->more) + column->more) ^ column->more) | equal;
	grows = column->less | ~(horizontal | column->more);
	shrinks = column->more & horizontal;
	out = (int)(grows >> last & 1) - (int)(shrinks >> last & 1);
	grows = grows << 1 | (step > 0);
	shrinks = shrinks << 1 | (step < 0);
	column->more = shrinks | ~(vertical | grows);
	column->less = grows & vertical;
	return out;
}

/* Steps are added to *work. */
static unsigned int distance_of(const struct wanted *a, const char *b, unsigned int most,
				size_t *work)
{
	struct column columns[WORDS];
	size_t b_length = strlen(b), words = (a->length + WORD - 1) / WORD, distance = a->length;

	if ((a->length > b_length ? a->length - b_length : b_length - a->length) > most)
		return most + 1;
	if (!a->length)
		return (unsigned int)b_length;
	for (size_t i = 0; i < words; i++)
		columns[i] = (struct column){.more = UINT64_MAX};
	for (size_t left = b_length; left--; b++) {
		const uint64_t *places = a->places[(unsigned char)*b];
		int step = 1;

		for (size_t i = 0; i < words; i++)
			step = next_column(
			    &columns[i], places[i], step,
			    (unsigned int)(i + 1 < words ? WORD - 1 : (a->length - 1) % WORD));
		*work += words;
		distance += (size_t)step;
		if (distance > most + left)
			return most + 1;
	}
	return (unsigned int)distance;
}

unsigned int closest_distance(const char *a, const char *b, unsigned int most)
{
	struct wanted wanted;
	size_t work = 0;

	if (strlen(a) > GPUSHARE_NAME_MAX)
		return most + 1;
	want(&wanted, a);
	return distance_of(&wanted, b, most, &work);
}

/* Of more names than are looked at, which ones they are, and so what is found, would follow from where
 * those stand that the peer may not see: by its own names it would learn them, one after the other. */
static bool would_tell(const struct registry *registry, const struct lease *lease)
{
	return registry->store.count > LIMIT_SUGGESTION_SCAN && !access_counts_all(registry, lease);
}

size_t closest_find(const struct registry *registry, const struct lease *lease, const char *name,
		    const char *out_names[LIMIT_SUGGESTIONS])
{
	const struct store *store = &registry->store;
	unsigned int distances[LIMIT_SUGGESTIONS];
	unsigned int most = (unsigned int)strlen(name) / 3;
	size_t found = 0, work = 0;
	struct wanted wanted;

	if (would_tell(registry, lease))
		return 0;
	if (most < 2)
		most = 2;
	want(&wanted, name);
	for (size_t i = 0;
	     i < store->count && i < LIMIT_SUGGESTION_SCAN && work < LIMIT_SUGGESTION_WORK; i++) {
		const struct entry *entry = store_at(store, i);
		const char *other = entry->info.name;
		unsigned int distance;
		size_t at = found;

		if (!access_sees(lease, entry))
			continue;
		work += LIMIT_SUGGESTION_LOOK;
		distance = distance_of(&wanted, other, most, &work);
		/* "ab" is not a slip for "x": something of the name must be left. */
		if (distance > most || distance >= strlen(name))
			continue;
		while (at > 0 && distances[at - 1] > distance)
			at--;
		if (at == LIMIT_SUGGESTIONS)
			continue;
		if (found < LIMIT_SUGGESTIONS)
			found++;
		memmove(distances + at + 1, distances + at, (found - at - 1) * sizeof(*distances));
		memmove(out_names + at + 1, out_names + at, (found - at - 1) * sizeof(*out_names));
		distances[at] = distance;
		out_names[at] = other;
	}
	return found;
}
