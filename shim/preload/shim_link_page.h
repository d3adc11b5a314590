/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINK_PAGE_H
#define GPUSHARE_SHIM_LINK_PAGE_H
/* Requests the stream-sync page of a named buffer over the shim's connection (shim_line.h). */
#include "protocol.h"

struct link_page {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	uint64_t id; /* of the page that this process has; 0: none */
	int fd;	     /* of that page, to give it back if the registry lost it; or -1 */
};

struct link_page_answer {
	unsigned int connection; /* its number; also set if the request failed */
	uint64_t id;		 /* the page's; a new page has another id than the old one */
	int fd;			 /* of a new page, which the caller closes; else -1 */
};

/* Request the page of a buffer that this process publishes. Wait until `until_ms`. Return a status;
 * on failure `why` has the sentence. *out_answer is not set if the shim gets no turn. */
int link_page(const struct link_page *page, int64_t until_ms, struct link_page_answer *out_answer,
	      char *why, size_t why_size);

#endif
