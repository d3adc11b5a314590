/* SPDX-License-Identifier: MIT */
#include "ordered.h"

#include <stdlib.h>
#include <string.h>

#include "store.h"

void ordered_finish(struct ordered *ordered)
{
	for (size_t i = 0; i < ordered->count; i++)
		free(ordered->pieces[i].piece);
	free(ordered->pieces);
	free(ordered->spare);
	*ordered = (struct ordered){0};
}

bool ordered_reserve(struct ordered *ordered)
{
	size_t room = ordered->room ? ordered->room * 2 : 16;
	void *pieces;

	if (!ordered->spare)
		ordered->spare = calloc(1, sizeof(*ordered->spare));
	if (!ordered->spare)
		return false;
	if (ordered->count < ordered->room)
		return true;
	pieces = realloc(ordered->pieces, room * sizeof(*ordered->pieces));
	if (!pieces)
		return false;
	ordered->pieces = pieces;
	ordered->room = room;
	return true;
}

/* The last piece that begins with this name or one below; 0 where none does. */
static size_t piece_of(const struct ordered *ordered, const char *name)
{
	size_t low = 0, high = ordered->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(ordered->pieces[middle].piece->entries[0]->info.name, name) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

/* How many of the piece are called this or something below. */
static size_t place_in(const struct ordered_piece *piece, const char *name)
{
	size_t low = 0, high = piece->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(piece->entries[middle]->info.name, name) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void insert_spare(struct ordered *ordered, size_t at, size_t first)
{
	memmove(ordered->pieces + at + 1, ordered->pieces + at,
		(ordered->count++ - at) * sizeof(*ordered->pieces));
	ordered->pieces[at].piece = ordered->spare;
	ordered->pieces[at].first = first;
	ordered->spare = NULL;
}

/* The upper half of a full piece into one of its own. */
static void split(struct ordered *ordered, size_t at)
{
	struct ordered_piece *from = ordered->pieces[at].piece, *to = ordered->spare;

	to->count = from->count / 2;
	from->count -= to->count;
	memcpy(to->entries, from->entries + from->count, to->count * sizeof(*to->entries));
	insert_spare(ordered, at + 1, ordered->pieces[at].first + from->count);
}

void ordered_insert(struct ordered *ordered, struct entry *entry)
{
	const char *name = entry->info.name;
	struct ordered_piece *piece;
	size_t at = piece_of(ordered, name), place;

	if (!ordered->count)
		insert_spare(ordered, 0, 0);
	else if (ordered->pieces[at].piece->count == ORDERED_PIECE) {
		split(ordered, at);
		at = piece_of(ordered, name);
	}
	piece = ordered->pieces[at].piece;
	place = place_in(piece, name);
	memmove(piece->entries + place + 1, piece->entries + place,
		(piece->count++ - place) * sizeof(*piece->entries));
	piece->entries[place] = entry;
	while (++at < ordered->count)
		ordered->pieces[at].first++;
}

/* The piece behind `at` is let go of. */
static void drop_piece(struct ordered *ordered, size_t at)
{
	free(ordered->pieces[at].piece);
	memmove(ordered->pieces + at, ordered->pieces + at + 1,
		(--ordered->count - at) * sizeof(*ordered->pieces));
}

/* Two that are half full together are one. */
static void join(struct ordered *ordered, size_t at)
{
	struct ordered_piece *to, *from;

	if (at + 1 >= ordered->count)
		return;
	to = ordered->pieces[at].piece;
	from = ordered->pieces[at + 1].piece;
	if (to->count + from->count > ORDERED_PIECE / 2)
		return;
	memcpy(to->entries + to->count, from->entries, from->count * sizeof(*to->entries));
	to->count += from->count;
	drop_piece(ordered, at + 1);
}

void ordered_remove(struct ordered *ordered, const struct entry *entry)
{
	size_t at = piece_of(ordered, entry->info.name);
	struct ordered_piece *piece = ordered->pieces[at].piece;
	size_t place = place_in(piece, entry->info.name) - 1;

	memmove(piece->entries + place, piece->entries + place + 1,
		(--piece->count - place) * sizeof(*piece->entries));
	for (size_t i = at + 1; i < ordered->count; i++)
		ordered->pieces[i].first--;
	if (!piece->count) {
		drop_piece(ordered, at);
		return;
	}
	join(ordered, at);
	if (at)
		join(ordered, at - 1);
}

size_t ordered_seek(const struct ordered *ordered, const char *after)
{
	size_t at = piece_of(ordered, after);

	return ordered->count
		   ? ordered->pieces[at].first + place_in(ordered->pieces[at].piece, after)
		   : 0;
}

struct entry *ordered_at(const struct ordered *ordered, size_t position)
{
	size_t low = 0, high = ordered->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ordered->pieces[middle].first <= position)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	position -= ordered->pieces[low - 1].first;
	return position < ordered->pieces[low - 1].piece->count
		   ? ordered->pieces[low - 1].piece->entries[position]
		   : NULL;
}
