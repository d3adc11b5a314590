/* SPDX-License-Identifier: MIT */
/* gpushare pull: copy buffers of another node. All of them are made, or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "node.h"
#include "pull.h"

#define TORN_MAX 3 /* how often a buffer is read again, if it was published during the reading */

/* One reading of one buffer. */
struct reading {
	struct puller *puller;
	struct peer *peer;
	uint64_t done; /* bytes */
	double began;  /* when the first byte was asked for; 0: none was */
	int status;
};

int pull_connect(struct puller *puller)
{
	const char *interface = puller->pull->interface;
	int status = peer_open(&puller->peer, &puller->node, puller->pull->folder);

	if (!status && interface)
		peer_use_ucx(&puller->peer, interface);
	return status;
}

int pull_reach(struct puller *puller)
{
	if (!puller->elsewhere || !peer_hello(&puller->peer))
		return GPUSHARE_OK;
	peer_close(&puller->peer);
	return pull_connect(puller);
}

static bool fail(const struct puller *puller)
{
	tool_error("%s", puller->peer.why);
	return false;
}

/* Find the buffers to pull: those that a pattern matches now, or the one of that name. */
static bool find(struct puller *puller, const char *name)
{
	struct gpushare_info single = {.size = 0};

	if (puller->pull->via)
		replica_begin(puller, name);
	else if (!tool_is_pattern(name)) {
		strcpy(single.name, name);
		return node_infos_add(&puller->infos, &single);
	}
	if (peer_list(&puller->peer, name, &puller->infos))
		return fail(puller);
	if (!puller->infos.count)
		tool_error("node '%s' has no buffer that '%s' matches", puller->node.name, name);
	return puller->infos.count != 0;
}

/* The callback of gpushare_write(): fetch the next bytes. */
static int take(void *data, size_t size, void *user)
{
	struct reading *reading = user;

	if (!reading->began)
		reading->began = progress_seconds();
	reading->status =
	    peer_fetch(reading->peer, reading->done, data, size, &reading->puller->progress);
	reading->done += size;
	return reading->status;
}

int pull_bytes(struct puller *puller, struct peer *peer, struct gpushare_buffer *buffer)
{
	struct reading reading = {.puller = puller, .peer = peer};
	int status = gpushare_write(buffer, 0, gpushare_size(buffer), take, &reading);

	puller->by_ucx = peer->worker;
	puller->took = progress_seconds() - reading.began;
	puller->failed_here = status && !reading.status;
	if (puller->failed_here)
		snprintf(peer->why, sizeof(peer->why), "%s", gpushare_explain());
	return reading.status ? reading.status : status;
}

bool pull_tags(struct puller *puller, const struct gpushare_info *info, uint64_t sequence)
{
	const struct pull *pull = puller->pull;
	struct gpushare_tag of = replica_tag(puller, info, sequence);
	int status = gpushare_tag(puller->staged.session, info->name, info->tags, info->tag_count);

	if (!status && pull->tag_count)
		status =
		    gpushare_tag(puller->staged.session, info->name, pull->tags, pull->tag_count);
	if (!status) /* without room for this tag, the copy can't serve --via, but is complete */
		(void)gpushare_tag(puller->staged.session, info->name, &of, 1);
	return !status || !tool_failed(status);
}

/* Open a source for the buffer, and set puller->version. *out_peer: the connection to the node or
 * to a replica; NULL: the source is in a registry of this host. False: see puller->peer.why. */
static bool open_source(struct puller *puller, const struct gpushare_info *wanted,
			struct gpushare_info *out_opened, struct peer **out_peer)
{
	*out_peer = NULL;
	if (replica_open(puller, wanted, out_opened))
		*out_peer = &puller->via;
	else if (!same_host_find(puller, wanted->name, out_opened)) {
		*out_peer = &puller->peer;
		if (pull_reach(puller) || peer_begin(&puller->peer, wanted->name, NULL, out_opened))
			return false;
	}
	puller->elsewhere = *out_peer != &puller->peer;
	puller->version = *out_peer == &puller->via ? *wanted : *out_opened;
	return true;
}

/* Make a staged buffer for puller->version. Reports errors. */
static struct gpushare_buffer *make(struct puller *puller)
{
	const struct pull *pull = puller->pull;
	struct gpushare_info here = puller->version;
	struct gpushare_buffer *buffer;

	if (!puller->progress.total) /* the size of a single buffer was unknown until now */
		progress_begin(&puller->progress, 1, here.size);
	if (pull->as)
		strcpy(here.name, pull->as);
	if (!pull->copy.mode && !pull->copy.group)
		here.mode &= ~060u; /* the source's group means nothing on this host */
	buffer = staged_add(&puller->staged, &pull->copy, &here, NULL);
	return buffer && pull_tags(puller, &here, pull->follows) ? buffer : NULL;
}

/* Read a buffer once into a staged one. *out_same: the source did not change meanwhile. If a
 * replica or the registry on this host failed, the next reading is from the node. */
static bool read_once(struct puller *puller, const struct gpushare_info *wanted, bool *out_same)
{
	uint64_t done = puller->progress.done;
	struct gpushare_buffer *buffer;
	struct gpushare_info opened;
	int status = GPUSHARE_OK;
	struct peer *peer;

	if (!open_source(puller, wanted, &opened, &peer))
		return fail(puller);
	buffer = make(puller);
	if (!buffer)
		return false;
	*out_same = !peer && same_host_copy(puller, buffer);
	if (!peer && !*out_same)
		same_host_end(puller);
	if (peer)
		status = pull_bytes(puller, peer, buffer);
	if (peer && !status)
		status = peer_end(peer, &opened, out_same);
	if (status && (peer == &puller->peer || puller->failed_here)) {
		tool_error("%s", peer->why);
		return false;
	}
	if (status)
		replica_end(puller);
	if (*out_same)
		puller->seconds += puller->took;
	else
		puller->progress.done = done;
	return true;
}

static bool pull_one(struct puller *puller, const struct gpushare_info *wanted)
{
	bool same = false;

	for (int i = 0; i <= TORN_MAX; i++) {
		if (!read_once(puller, wanted, &same))
			return false;
		if (same)
			return true;
		staged_drop(&puller->staged);
	}
	tool_error("'%s' of node '%s' was published during each of %d readings; pull it while its "
		   "publisher pauses",
		   wanted->name, puller->node.name, TORN_MAX + 1);
	return false;
}

static bool pull_all(struct puller *puller)
{
	int status = GPUSHARE_OK;
	uint64_t total = 0;
	bool good = true;

	for (size_t i = 0; i < puller->infos.count; i++) {
		const struct gpushare_info *info = &puller->infos.list[i];

		good &= staged_is_free(puller->staged.session,
				       puller->pull->as ? puller->pull->as : info->name);
		total += info->size;
	}
	if (!good)
		return false;
	progress_begin(&puller->progress, 1, total);
	for (size_t i = 0; good && i < puller->infos.count; i++)
		good = pull_one(puller, &puller->infos.list[i]);
	progress_end(&puller->progress);
	if (!good)
		return false;
	copy_catch_signals(); /* until here a signal ends the process, and leaves no buffer */
	if (puller->pull->follows &&
	    (status = gpushare_publish_host(puller->staged.buffers[0].buffer, NULL)))
		return !tool_failed(status);
	return staged_show(&puller->staged) && !copy_caught;
}

static void print_rate(const struct puller *puller)
{
	char text[PROGRESS_TEXT];

	progress_rate(puller->progress.done, puller->seconds, text);
	tool_error("%s%s", text, puller->by_ucx ? " by UCX" : "");
}

static bool check(const char *name)
{
	if (!tool_is_pattern(name))
		return tool_check_name(name);
	if (strlen(name) > GPUSHARE_NAME_MAX)
		tool_error("the pattern has more than %d characters", GPUSHARE_NAME_MAX);
	return strlen(name) <= GPUSHARE_NAME_MAX;
}

/* Split NODE:NAME at the colon, and find the node. */
static bool parse(struct puller *puller, char *operand, const char **out_name)
{
	char *colon = strrchr(operand, ':'), why[NODES_WHY_MAX];

	if (!colon || !colon[1] || colon == operand) {
		tool_error("'%s' is not NODE:NAME", operand);
		return false;
	}
	if (!check(colon + 1))
		return false;
	*colon = '\0';
	*out_name = colon + 1;
	if (nodes_find(operand, &puller->node, why))
		return true;
	tool_error("%s", why);
	return false;
}

int node_pull(const struct pull *pull, struct gpushare_session *session)
{
	struct puller puller = {.pull = pull, .elsewhere = true};
	int code = TOOL_DONE;
	const char *name;
	bool good;

	/* The next two calls use setenv(), so make them before threads start. The C library reads
	 * RES_OPTIONS at the first look-up. */
	address_limit_look_ups();
	if (pull->interface)
		(void)ucx_version(NULL);
	if (!parse(&puller, pull->copy.names[0], &name))
		return TOOL_FAILED;
	good = !pull_connect(&puller) || fail(&puller);
	if (good)
		same_host_begin(&puller);
	good = good && find(&puller, name) &&
	       staged_begin(&puller.staged, session, puller.infos.count) && pull_all(&puller);
	if (good && pull->copy.rate)
		print_rate(&puller);
	if (good && pull->follows)
		code = follow(&puller);
	good = staged_end(&puller.staged, good);
	peer_close(&puller.peer);
	peer_close(&puller.via);
	same_host_end(&puller);
	free(puller.infos.list);
	free(puller.copies.list);
	if (!good && copy_caught)
		copy_die("interrupted; what had been pulled was removed");
	return good ? code : TOOL_FAILED;
}
