/* SPDX-License-Identifier: MIT */
#include "closest.h"

#include <string.h>

#include "access.h"

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Steps are added to *work. */
static unsigned int distance_of(const char *a, const char *b, unsigned int most, size_t *work)
{
	unsigned int row[GPUSHARE_NAME_MAX + 1];
	size_t a_length = strlen(a), b_length = strlen(b);

	if ((a_length > b_length ? a_length - b_length : b_length - a_length) > most)
		return most + 1;
	for (size_t j = 0; j <= b_length; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned int diagonal = row[0];
		unsigned int row_least = row[0] = (unsigned int)i;

		*work += b_length;
		for (size_t j = 1; j <= b_length; j++) {
			unsigned int above = row[j];

			row[j] =
			    least(least(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
			row_least = least(row_least, row[j]);
		}
		if (row_least > most)
			return most + 1;
	}
	return least(row[b_length], most + 1);
}

unsigned int closest_distance(const char *a, const char *b, unsigned int most)
{
	size_t work = 0;

	return distance_of(a, b, most, &work);
}

size_t closest_find(const struct store *store, const struct lease *lease, const char *name,
		    const char *out_names[LIMIT_SUGGESTIONS])
{
	unsigned int distances[LIMIT_SUGGESTIONS];
	unsigned int most = (unsigned int)strlen(name) / 3;
	size_t found = 0, work = 0;

	if (most < 2)
		most = 2;
	for (size_t i = 0;
	     i < store->count && i < LIMIT_SUGGESTION_SCAN && work < LIMIT_SUGGESTION_WORK; i++) {
		const struct entry *entry = store_at(store, i);
		const char *other = entry->info.name;
		unsigned int distance = distance_of(name, other, most, &work);
		size_t at = found;

		/* "ab" is not a slip for "x": something of the name must be left. */
		if (distance > most || distance >= strlen(name) || !access_sees(lease, entry))
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
