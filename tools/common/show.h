/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SHOW_H
#define GPUSHARE_TOOLS_SHOW_H
/* A buffer's record as JSON, and the texts that several verbs print. */
#include <jansson.h>
#include <stdbool.h>

#include "tool.h"

/* Returns a new object; NULL: out of memory. */
json_t *show_json(const struct gpushare_info *info);
json_t *show_registry_json(const struct gpushare_registry_info *info);
/* Print `value` and release it. NULL: reports out of memory. Returns a tool_exit. */
int show_dump(json_t *value);
/* show_dump() in one line. */
int show_dump_line(json_t *value);
uint64_t show_since(uint64_t unix_ns);			   /* seconds from then to now */
void show_time(uint64_t unix_ns, char out[TOOL_TEXT_MAX]); /* local time; "?": out of range */
const char *show_backing(const struct gpushare_info *info);

#define SHOW_CELL_MAX (GPUSHARE_NAME_MAX + 1)
/* For example "trainer[123]"; bytes that aren't printable ASCII become '?'. */
void show_owner(const struct gpushare_info *info, char out[SHOW_CELL_MAX]);
void show_holder(const struct gpushare_holder *holder, char out[SHOW_CELL_MAX]);
/* For example "rw-r----- alice:video". Ids without a name on this host are printed as numbers. */
void show_rights(const struct gpushare_info *info, char out[SHOW_CELL_MAX]);
/* False if this user owns the buffer and its mode is 0600. Listings then omit the rights. */
bool show_has_rights(const struct gpushare_info *info);
/* For example "dtype=f16 shape=2,3". */
void show_tags(const struct gpushare_info *info, char out[SHOW_CELL_MAX]);
json_t *show_tags_json(const struct gpushare_info *info);
/* Like show_json(), with a list `holders` of the processes that have the buffer attached. The list
 * is empty if the registry can't give it. */
json_t *show_json_holders(const struct gpushare_info *info, struct gpushare_session *session);

#define SHOW_STATE_MAX 160
/* For example "kept,owner-gone,left=12s" or "read-only"; "" for an ordinary buffer. */
void show_state(const struct gpushare_info *info, char out[SHOW_STATE_MAX]);

#endif
