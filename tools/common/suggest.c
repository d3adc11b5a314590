/* SPDX-License-Identifier: MIT */
#include "suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "protocol.h"
#include "tool.h"

#define SUGGESTIONS 3
#define LOOKED_AT 10000 /* names compared at most */
#define SUGGEST_MAX (SUGGESTIONS * (GPUSHARE_NAME_MAX + 8) + 32)

struct meant {
	const char *name;
	unsigned int most, looked, count;
	/* closest first; the last entry is scratch space for the insertion */
	struct {
		char name[GPUSHARE_NAME_MAX + 1];
		unsigned int distance;
	} found[SUGGESTIONS + 1];
};

static bool is_missing(int status)
{
	return status == GPUSHARE_E_NOT_FOUND || status == GPUSHARE_E_TIMED_OUT;
}

static int look(const struct gpushare_info *info, void *user)
{
	struct meant *meant = user;
	unsigned int away = edit_distance(meant->name, info->name, meant->most), at = meant->count;

	if (++meant->looked > LOOKED_AT)
		return 1;
	/* If every character differs, the name isn't mistyped: don't suggest "ab" for "x". */
	if (away > meant->most || away >= strlen(meant->name))
		return 0;
	for (; at && meant->found[at - 1].distance > away; at--)
		meant->found[at] = meant->found[at - 1];
	strcpy(meant->found[at].name, info->name);
	meant->found[at].distance = away;
	meant->count += meant->count < SUGGESTIONS;
	return 0;
}

/* Write for example "; did you mean "weights" or "wight"?". If no name is close enough, or `status`
 * doesn't say that the name is missing, write "". */
static void suggest(struct gpushare_session *session, const char *name, int status,
		    char out[SUGGEST_MAX])
{
	struct meant meant = {.name = name, .most = (unsigned int)strlen(name) / 3};
	int length;

	*out = '\0';
	if (!is_missing(status))
		return;
	if (meant.most < 2)
		meant.most = 2;
	gpushare_list(session, NULL, look, &meant);
	if (!meant.count)
		return;
	length = sprintf(out, "; did you mean ");
	for (unsigned int i = 0; i < meant.count; i++)
		length += sprintf(out + length, "%s\"%s\"",
				  i == 0		 ? ""
				  : i + 1 == meant.count ? " or "
							 : ", ",
				  meant.found[i].name);
	strcpy(out + length, "?");
}

int suggest_failed(struct gpushare_session *session, const char *name, unsigned int wait_ms,
		   int status)
{
	const char *said = gpushare_explain();
	_cleanup_free_ char *why = strdup(*said ? said : gpushare_status_text(status));
	char suggested[SUGGEST_MAX], waited[TOOL_TEXT_MAX] = "";

	if (wait_ms && is_missing(status))
		snprintf(waited, sizeof(waited), "; waited %g s", wait_ms / 1000.0);
	suggest(session, name, status, suggested);
	tool_error("%s%s%s", why ? why : gpushare_status_text(status), waited, suggested);
	return TOOL_FAILED;
}
