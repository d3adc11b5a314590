/* SPDX-License-Identifier: MIT */
/* gpushare pull from a node of this host: attach the source here, and let the GPU copy it. Whatever
 * fails, the caller goes on with the connection. */
#include <stdlib.h>
#include <string.h>

#include "pull.h"

#define PUBLICATION_MS 5000 /* to wait for a publisher that writes */

struct comparison {
	struct gpushare_buffer *copy;
	size_t at;
};

void same_host_begin(struct puller *puller)
{
	const struct gpushare_open_options options = {.directory = puller->peer.directory,
						      .no_autostart = 1};
	const char *wanted = getenv("GPUSHARE_SAME_HOST");
	char place[PLACE_MAX];

	place_find(puller->peer.directory, place);
	if (*place && !strcmp(place, puller->peer.place) && !(wanted && !strcmp(wanted, "0")))
		(void)gpushare_open(&options, &puller->beside);
}

void same_host_end(struct puller *puller)
{
	gpushare_close(puller->beside);
	puller->beside = NULL;
}

/* For gpushare_read() of the source. */
static int compare(const void *data, size_t size, void *user)
{
	struct comparison *comparison = user;
	void *copy = malloc(size);
	bool same = copy && !gpushare_copy_from(comparison->copy, comparison->at, copy, size) &&
		    !memcmp(copy, data, size);

	free(copy);
	comparison->at += size;
	return !same;
}

/* As the node does it: a publisher that doesn't call gpushare_reclaim() may write meanwhile, which a
 * second reading shows. */
static bool copy_publication(struct gpushare_buffer *to, struct gpushare_buffer *source,
			     uint64_t wanted)
{
	struct comparison comparison = {.copy = to};
	uint64_t first, got = 0, now = 0;
	int status = gpushare_join(source, &first);

	if (!status)
		status = gpushare_acquire_host(source, first, PUBLICATION_MS, &got);
	if (status == GPUSHARE_E_OWNER_GONE) /* what it has written remains as it is */
		status = gpushare_sequence(source, &got);
	return !status && got == wanted && device_copy(to, source) &&
	       !gpushare_read(source, 0, gpushare_size(source), compare, &comparison) &&
	       !gpushare_sequence(source, &now) && now == wanted;
}

bool same_host_copy(struct puller *puller, struct gpushare_buffer *to)
{
	const struct gpushare_info *version = &puller->version;
	const struct gpushare_attach_options options = {
	    .read_only = 1, .on_device = 1, .device = gpushare_device(to)};
	struct gpushare_buffer *source;
	struct gpushare_info own, now;
	double began = progress_seconds();
	bool good;

	if (gpushare_attach(puller->beside, version->name, &options, &source))
		return false;
	good = !gpushare_buffer_info(source, &own) && own.generation == version->generation &&
	       (version->sequence ? copy_publication(to, source, version->sequence)
				  : device_copy(to, source)) &&
	       !gpushare_stat(puller->beside, version->name, &now) &&
	       now.generation == version->generation && now.sequence == version->sequence;
	gpushare_detach(source); /* it also leaves: the publisher waits for this process no more */
	puller->took = progress_seconds() - began;
	if (good)
		progress_add(&puller->progress, gpushare_size(to));
	return good;
}
