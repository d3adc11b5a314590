/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SHOW_H
#define GPUSHARE_TOOLS_SHOW_H
/* A buffer's record as JSON, and what ls and stat print alike. */
#include <jansson.h>
#include <stdbool.h>

#include "gpushare.h"

/* A new object, or NULL without memory. */
json_t *show_json(const struct gpushare_info *info);
json_t *show_registry_json(const struct gpushare_registry_info *info);
/* Print and release; returns a tool_exit. NULL is said to be out of memory. */
int show_dump(json_t *value);
/* All that one of the calls that list gives, as one array; returns a tool_exit. */
typedef int show_list(struct gpushare_session *session, const char *glob,
		      int (*visit)(const struct gpushare_info *info, void *user), void *user);
int show_list_json(struct gpushare_session *session, show_list *list, const char *glob);
uint64_t show_age(const struct gpushare_info *info); /* seconds */
const char *show_backing(const struct gpushare_info *info);

#define SHOW_CELL_MAX (GPUSHARE_NAME_MAX + 1)
/* "trainer[123]", made safe for a terminal. */
void show_owner(const struct gpushare_info *info, char out[SHOW_CELL_MAX]);
void show_holder(const struct gpushare_holder *holder, char out[SHOW_CELL_MAX]);
/* "rw-r----- alice:video", names where the host knows them. */
void show_rights(const struct gpushare_info *info, char out[SHOW_CELL_MAX]);
/* Whether there is more to say than that it is this user's alone. */
bool show_has_rights(const struct gpushare_info *info);
/* "dtype=f16 shape=2,3" */
void show_tags(const struct gpushare_info *info, char out[SHOW_CELL_MAX]);
json_t *show_tags_json(const struct gpushare_info *info);
/* Of a gpushare_holders() visitor: append to that array. */
int show_holder_visit(const struct gpushare_holder *holder, void *array);

#define SHOW_STATE_MAX 160
/* "kept,owner-gone,left=12s", "read-only", or "" of an ordinary buffer. */
void show_state(const struct gpushare_info *info, char out[SHOW_STATE_MAX]);

#endif
