/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_LISTING_H
#define GPUSHARE_TOOLS_LISTING_H
/* The columns of `gpushare ls`. */

enum listing_flag {
	LISTING_BUFFERS = 1, /* by default, shown for buffers */
	LISTING_EVENTS = 2,  /* by default, shown for events */
	LISTING_IF_ANY = 4,  /* by default, hidden if all its cells are empty */
	LISTING_NUMBER = 8,  /* aligned to the right */
};

#define LISTING_ALL (LISTING_BUFFERS | LISTING_EVENTS)
#define LISTING_SIZE (LISTING_BUFFERS | LISTING_NUMBER)
#define LISTING_MORE (LISTING_BUFFERS | LISTING_IF_ANY)

/* X(title, flags, number to sort by, code of verb_ls.c that writes the cell). Cells with equal
 * numbers are sorted by their texts. */
#define LISTING_COLUMNS(X) \
	X(NODE, LISTING_MORE, 0, strcpy(cell, listing->node ? listing->node : "")) \
	X(NAME, LISTING_ALL, 0, strcpy(cell, info->name)) \
	X(SIZE, LISTING_SIZE, info->size, put_size(listing, info->size, cell)) \
	X(HELD, LISTING_SIZE, info->base_size, put_size(listing, info->base_size, cell)) \
	X(GPU, LISTING_ALL, 0, put_gpu(listing, info, cell)) \
	X(OWNER, LISTING_ALL, 0, show_owner(info, cell)) \
	X(ATTACHMENTS, LISTING_ALL | LISTING_NUMBER, info->attachers, \
	  put_number(info->attachers, cell)) \
	X(AGE, LISTING_ALL | LISTING_NUMBER, UINT64_MAX - info->created_unix_ns, \
	  tool_format_age(show_since(info->created_unix_ns), cell)) \
	X(RIGHTS, LISTING_MORE, 0, put_rights(listing, info, cell)) \
	X(STATE, LISTING_MORE, 0, show_state(info, cell)) \
	X(TAGS, LISTING_MORE, 0, show_tags(info, cell)) \
	X(BACKING, 0, 0, strcpy(cell, show_backing(info))) \
	X(GENERATION, LISTING_NUMBER, info->generation, put_number(info->generation, cell))

#endif
