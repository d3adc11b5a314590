/* SPDX-License-Identifier: MIT */
/* gpushare pull --via: if another node has a copy of the wanted version, read that copy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pull.h"

struct gpushare_tag replica_tag(const struct puller *puller, const struct gpushare_info *there,
				uint64_t sequence)
{
	struct gpushare_tag tag = {.key = "copy-of"};

	if (*puller->peer.place)
		snprintf(tag.value, sizeof(tag.value), "%s/%" PRIx64 ".%" PRIx64 "@%" PRIx64,
			 puller->peer.place, there->generation, there->sequence, sequence);
	return tag;
}

void replica_end(struct puller *puller)
{
	tool_error("%s; going on with node '%s'", puller->via.why, puller->node.name);
	peer_close(&puller->via);
}

void replica_begin(struct puller *puller, const char *glob)
{
	char why[NODES_WHY_MAX];

	if (!nodes_find(puller->pull->via, &puller->via_node, why))
		tool_error("%s; going on with node '%s'", why, puller->node.name);
	else if (peer_open(&puller->via, &puller->via_node, puller->pull->folder) ||
		 peer_list(&puller->via, glob, &puller->copies))
		replica_end(puller);
}

static bool is_copy(const struct puller *puller, const struct gpushare_info *wanted,
		    const struct gpushare_info *copy)
{
	struct gpushare_tag tag = replica_tag(puller, wanted, copy->sequence);

	/* the owner of a buffer without publications can change it without a new sequence number */
	if ((!wanted->sequence && wanted->owner_alive) || copy->size != wanted->size)
		return false;
	for (uint32_t i = 0; *tag.value && i < copy->tag_count; i++)
		if (!strcmp(copy->tags[i].key, tag.key))
			return !strcmp(copy->tags[i].value, tag.value);
	return false;
}

static bool is_listed(const struct puller *puller, const struct gpushare_info *wanted)
{
	for (size_t i = 0; puller->via.stream && i < puller->copies.count; i++)
		if (!strcmp(puller->copies.list[i].name, wanted->name))
			return is_copy(puller, wanted, &puller->copies.list[i]);
	return false;
}

/* Since peer_list(), another buffer or version may have taken the name, so check again. */
bool replica_open(struct puller *puller, const struct gpushare_info *wanted,
		  struct gpushare_info *out_copy)
{
	bool same;

	if (!is_listed(puller, wanted))
		return false;
	if (peer_begin(&puller->via, wanted->name, NULL, out_copy)) {
		replica_end(puller);
		return false;
	}
	if (is_copy(puller, wanted, out_copy))
		return true;
	if (peer_end(&puller->via, out_copy, &same))
		replica_end(puller);
	return false;
}
