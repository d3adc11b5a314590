/* SPDX-License-Identifier: MIT */
/*
 * gpushare pull --follow: each publication is received into a hidden buffer. When it is complete,
 * and all readers on this host have released the previous one, the GPU copies the hidden buffer to
 * the named buffer. Then the named buffer is published.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pull.h"

#define PING_MS 3000 /* between Hello requests: the node closes a silent connection */
#define RETRY_MS 500 /* until the first attempt to reconnect; doubled up to RETRY_MAX_MS */
#define RETRY_MAX_MS 30000

struct follower {
	struct puller *puller;
	struct gpushare_buffer *shown; /* the named buffer, with the last complete version */
	struct gpushare_buffer *next;  /* the hidden buffer; NULL: not allocated yet */
	const char *name;	       /* of `shown` */
	uint64_t sequence;	       /* newest publication of `shown` */
	bool stale;		       /* `shown` has the tag 'stale' */
	bool failed;		       /* a step on this host failed, and was reported */
};

/* Set or remove the tag 'stale', the time at which the source was lost. */
static void mark(struct follower *follower, bool stale)
{
	struct gpushare_session *session = follower->puller->staged.session;
	struct gpushare_tag tags[] = {{.key = "copy-of"}, {.key = "stale"}};
	time_t now = time(NULL);
	struct tm utc;
	int status;

	if (stale == follower->stale)
		return;
	if (stale)
		strftime(tags[1].value, sizeof(tags[1].value), "%Y-%m-%dT%H:%M:%SZ",
			 gmtime_r(&now, &utc));
	status = gpushare_tag(session, follower->name, tags + 1, 1);
	/* If there is no room for another tag, remove copy-of, which only `pull --via` needs. */
	if (status == GPUSHARE_E_LIMIT)
		status = gpushare_tag(session, follower->name, tags, 2);
	if (status)
		tool_error("'%s' can't be marked as stale: %s", follower->name, gpushare_explain());
	follower->stale = stale;
}

static void lose(struct follower *follower, const char *then)
{
	mark(follower, true);
	tool_error("%s; '%s' is the last whole version%s", follower->puller->peer.why,
		   follower->name, then);
}

/* Wait until all readers have released the last version. Meanwhile send Hellos. Their errors are
 * ignored, because the next call on the connection then fails too. */
static int reclaim(struct follower *follower)
{
	int status;

	while ((status = gpushare_reclaim_host(follower->shown, follower->sequence, PING_MS)) ==
	       GPUSHARE_E_TIMED_OUT)
		(void)peer_hello(&follower->puller->peer);
	return status;
}

/* Remove the tags that the source had at the last version, and no longer has. Also remove
 * `copy-of`, because the next version's tags may need its place. */
static int remove_tags(struct follower *follower, const struct gpushare_info *next)
{
	const struct gpushare_info *last = &follower->puller->version;
	struct gpushare_tag gone[GPUSHARE_TAGS_MAX] = {{.key = "copy-of"}};
	uint32_t count = last->tag_count < GPUSHARE_TAGS_MAX, at;

	for (uint32_t i = 0; i < last->tag_count; i++) {
		for (at = 0; at < next->tag_count; at++)
			if (!strcmp(next->tags[at].key, last->tags[i].key))
				break;
		if (at == next->tag_count)
			strcpy(gone[count++].key, last->tags[i].key);
	}
	return count ? gpushare_tag(follower->puller->staged.session, follower->name, gone, count)
		     : GPUSHARE_OK;
}

/* Copy the complete version to the named buffer, and publish it. Reports errors. */
static bool show(struct follower *follower, const struct gpushare_info *there)
{
	struct gpushare_info here = *there;
	int status = reclaim(follower);

	strcpy(here.name, follower->name);
	if (status)
		return !tool_failed(status);
	copy_catch_signals(); /* a signal has to wait until the version is published */
	mark(follower, false);
	status = remove_tags(follower, there);
	if (status)
		return !tool_failed(status);
	if (!pull_tags(follower->puller, &here, follower->sequence + 1))
		return false;
	if (!device_copy(follower->shown, follower->next)) {
		tool_error("CUDA can't copy the new version to '%s'", follower->name);
		return false;
	}
	status = gpushare_publish_host(follower->shown, &follower->sequence);
	if (status)
		return !tool_failed(status);
	copy_let_signals();
	return true;
}

/* Check the opened version's size, and make the hidden buffer if there is none. Reports errors. */
static bool prepare(struct follower *follower, const struct gpushare_info *there)
{
	const struct gpushare_alloc_options options = {.device = gpushare_device(follower->shown),
						       .flags = GPUSHARE_FLAG_STAGED};
	size_t size = gpushare_size(follower->shown);
	char name[32];
	int status;

	if (there->size != size) {
		tool_error("'%s' of node '%s' has %" PRIu64
			   " bytes now, and '%s' has %zu: remove the latter, and pull again",
			   there->name, follower->puller->node.name, there->size, follower->name,
			   size);
		return false;
	}
	if (follower->next)
		return true;
	snprintf(name, sizeof(name), "pull.%d", (int)getpid());
	status = gpushare_alloc_with(follower->puller->staged.session, name, size, &options,
				     &follower->next);
	return !status || !tool_failed(status);
}

/* Wait for the next version, receive and show it. Returns the status of the calls to the node. */
static int follow_once(struct follower *follower)
{
	struct puller *puller = follower->puller;
	struct gpushare_info there;
	int status = peer_begin(&puller->peer, puller->version.name, &puller->version, &there);

	if (status)
		return status;
	follower->failed = !prepare(follower, &there);
	if (follower->failed)
		return GPUSHARE_OK;
	progress_begin(&puller->progress, 1, there.size);
	status = pull_bytes(puller, &puller->peer, follower->next);
	progress_end(&puller->progress);
	if (puller->failed_here)
		tool_error("%s", puller->peer.why);
	follower->failed = puller->failed_here || (!status && !show(follower, &there));
	puller->version = status ? puller->version : there;
	return status;
}

/* Whether nothing was published while the node was lost. */
static bool is_current(struct puller *puller)
{
	const struct gpushare_info *had = &puller->version;
	struct node_infos infos = {.list = NULL};
	bool same = !peer_list(&puller->peer, had->name, &infos) && infos.count &&
		    infos.list->generation == had->generation &&
		    infos.list->sequence == had->sequence;

	free(infos.list);
	return same;
}

static void connect_again(struct follower *follower)
{
	struct puller *puller = follower->puller;
	unsigned int wait_ms = RETRY_MS;

	do {
		peer_close(&puller->peer);
		usleep(1000 * wait_ms);
		wait_ms = 2 * wait_ms < RETRY_MAX_MS ? 2 * wait_ms : RETRY_MAX_MS;
	} while (pull_connect(puller));
	tool_error("node '%s' answers again", puller->node.name);
	if (is_current(puller))
		mark(follower, false);
}

int follow(struct puller *puller)
{
	struct staged_buffer *first = &puller->staged.buffers[0];
	struct follower follower = {
	    .puller = puller, .shown = first->buffer, .name = first->name, .sequence = 1};
	bool gone = false;

	copy_let_signals();
	(void)pull_reach(puller); /* if this fails, the next request fails too */
	while (!gone && !follower.failed) {
		int status = follow_once(&follower);

		gone = status == GPUSHARE_E_NOT_FOUND || status == GPUSHARE_E_OWNER_GONE;
		if (status && !follower.failed)
			lose(&follower, gone ? "" : "; trying again until interrupted");
		if (status && !follower.failed && !gone)
			connect_again(&follower);
	}
	if (follower.failed)
		mark(&follower, true);
	gpushare_free(follower.next);
	return follower.failed ? TOOL_FAILED : TOOL_DONE;
}
