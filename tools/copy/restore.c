/* SPDX-License-Identifier: MIT */
/* Create buffers from a saved set or from one file: all of them, or none. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "base/cleanup.h"
#include "data/layout.h"
#include "data/source.h"
#include "manifest.h"
#include "progress.h"
#include "staged.h"

struct restore {
	const struct copy_request *request;
	struct gpushare_session *session;
	struct manifest manifest; /* the buffers to restore */
	struct staged staged;	  /* the buffers of `manifest` */
	bool verify;		  /* the input is a set, whose manifest has checksums */
	struct progress progress;
	struct source source;
	struct sha256_ctx digest;
	int error; /* errno of a failed read */
};

/* Plan to restore one file, to a buffer with the NAME of the command line. */
static bool read_file(struct restore *restore)
{
	const struct copy_request *request = restore->request;
	struct manifest_entry entry = {.npy = false};
	struct source source;

	if (request->name_count != 1 || strlen(request->query.name) > GPUSHARE_NAME_MAX) {
		tool_error("'%s' is a file: give one NAME for the buffer", request->input);
		return false;
	}
	if (!source_open(&source, request->input, false, true)) {
		tool_error("'%s' can't be restored: %s", request->input, source.why);
		return false;
	}
	close(source.fd);
	memcpy(entry.info.name, request->query.name, strlen(request->query.name) + 1);
	entry.info.size = source.size;
	entry.npy = source.is_npy;
	if (source.is_npy)
		entry.info.tag_count = (uint32_t)layout_make_tags(
		    source.npy.dtype, &source.npy.shape, entry.info.tags);
	if (manifest_add(&restore->manifest, &entry))
		return true;
	tool_error("no memory to plan the restore of '%s'", entry.info.name);
	return false;
}

static bool open_source(struct restore *restore, const struct manifest_entry *entry)
{
	struct source *source = &restore->source;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", restore->request->input, restore->verify ? "/" : "",
		 entry->file);
	if (!source_open(source, path, !entry->npy, !restore->verify)) {
		tool_error("'%s' can't be restored: %s", path, source->why);
		return false;
	}
	if (source->is_npy == entry->npy && source->size == entry->info.size)
		return true;
	tool_error("'%s' holds %" PRIu64 " bytes of data, and %s %" PRIu64 "%s", path, source->size,
		   restore->verify ? "the manifest says" : "just now held", entry->info.size,
		   entry->npy ? " after a header" : "");
	close(source->fd);
	return false;
}

static int restore_chunk(void *data, size_t size, void *user)
{
	struct restore *restore = user;
	ssize_t got;

	if (copy_caught)
		return 1;
	got = source_read(restore->source.fd, data, size);
	if (got != (ssize_t)size) {
		restore->error = got < 0 ? errno : EIO;
		return 1;
	}
	if (restore->verify)
		sha256_update(&restore->digest, size, data);
	progress_add(&restore->progress, size);
	return copy_caught != 0;
}

static bool fill(struct restore *restore, const struct manifest_entry *entry,
		 struct gpushare_buffer *buffer)
{
	const struct gpushare_info *info = &entry->info;
	char sha256[DIGEST_TEXT_MAX];
	int status;

	sha256_init(&restore->digest);
	restore->error = 0;
	status = gpushare_write(buffer, 0, info->size, restore_chunk, restore);
	if (copy_caught)
		return false;
	if (restore->error) {
		tool_error("reading the saved bytes of '%s' failed: %s", info->name,
			   strerror(restore->error));
		return false;
	}
	if (status)
		return !tool_failed(status);
	digest_end(&restore->digest, sha256);
	if (restore->verify && strcmp(sha256, entry->sha256) != 0) {
		tool_error(
		    "'%s' is not what was saved: the SHA-256 of '%s' is %s, and the manifest "
		    "says %s",
		    info->name, entry->file, sha256, entry->sha256);
		return false;
	}
	status = gpushare_tag(restore->session, info->name, info->tags, info->tag_count);
	return !status || !tool_failed(status);
}

static bool restore_entry(struct restore *restore, const struct manifest_entry *entry)
{
	struct gpushare_buffer *buffer;
	bool good;

	if (!open_source(restore, entry))
		return false;
	buffer = staged_add(&restore->staged, restore->request, &entry->info, entry->group);
	good = buffer && fill(restore, entry, buffer);
	close(restore->source.fd);
	return good;
}

static bool restore_all(struct restore *restore)
{
	const struct manifest *manifest = &restore->manifest;
	uint64_t total = 0;
	bool good = true;

	for (size_t i = 0; i < manifest->count; i++) { /* report all names that are taken */
		good &= staged_is_free(restore->session, manifest->entries[i].info.name);
		total += manifest->entries[i].info.size;
	}
	good &= staged_begin(&restore->staged, restore->session, manifest->count);
	if (!good)
		return false;
	copy_catch_signals();
	progress_begin(&restore->progress, 1, total);
	for (size_t i = 0; good && i < manifest->count; i++)
		good = restore_entry(restore, &manifest->entries[i]);
	progress_end(&restore->progress);
	return good && !copy_caught && staged_show(&restore->staged);
}

int copy_restore(const struct copy_request *request, struct gpushare_session *session)
{
	struct restore restore = {.request = request, .session = session};
	struct stat there;
	bool good;

	if (stat(request->input, &there)) {
		tool_error("'%s' can't be restored: %s", request->input, strerror(errno));
		return TOOL_FAILED;
	}
	restore.verify = S_ISDIR(there.st_mode);
	good = restore.verify ? copy_read_set(request, request->input, &restore.manifest)
			      : read_file(&restore);
	good = good && restore_all(&restore);
	good = staged_end(&restore.staged, good);
	manifest_finish(&restore.manifest);
	if (!good && copy_caught)
		copy_die(restore.staged.made ? "interrupted; what had been restored was removed"
					     : "");
	return good ? TOOL_DONE : TOOL_FAILED;
}
