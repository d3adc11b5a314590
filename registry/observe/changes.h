/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CHANGES_H
#define GPUSHARE_REGISTRY_CHANGES_H
/* The page that tells clients, without a question, that a name may mean something else by now. */
#include <stdbool.h>

#include "protocol.h"

struct changes {
	struct changes_page *page; /* NULL: there is none, and clients ask each time */
	int fd;			   /* of it, which nobody else can map for writing */
};

void changes_init(struct changes *changes);
void changes_finish(struct changes *changes);
/* Before anybody is answered that the name has gone, or stands for another generation. */
void changes_mark(struct changes *changes, const char *name);
/* Has the last attacher of that generation, which has no name any more, left? */
void changes_left(struct changes *changes, uint64_t generation, bool left);

#endif
