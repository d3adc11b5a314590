/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINK_PAGE_H
#define GPUSHARE_SHIM_LINK_PAGE_H
/* The order page of a named buffer, asked for over the shim's line (shim_link.h). */
#include "protocol.h"

struct link_page {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	uint64_t id; /* of the page that is there already; 0: none is */
	int fd;	     /* of that one, to be given back where the registry has lost it; or -1 */
};

struct link_page_answer {
	unsigned int connection; /* over which it was asked; also where that failed, if it was */
	uint64_t id;		 /* the page's, which may be another one's now */
	int fd;			 /* of a page that was not there; else -1. The caller closes it */
};

/* This process publishes that buffer. Over by `until_ms`. A status, the sentence in `why`. */
int link_page(const struct link_page *page, int64_t until_ms, struct link_page_answer *out_answer,
	      char *why, size_t why_size);

#endif
