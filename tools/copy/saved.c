/* SPDX-License-Identifier: MIT */
/* Read the manifest of a saved set, and compare a saved set with existing buffers. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "base/cleanup.h"
#include "data/analysis.h"
#include "data/source.h"
#include "manifest.h"
#include "progress.h"

static bool read_whole(const char *path, char **out_text, size_t *out_size)
{
	struct source source;
	ssize_t got = -1;

	if (!source_open(&source, path, true, false)) {
		tool_error("'%s' can't be read: %s", path, source.why);
		return false;
	}
	if (source.size > MANIFEST_SIZE_MAX) {
		tool_error("'%s' is not a manifest: it has over %zu bytes", path,
			   MANIFEST_SIZE_MAX);
	} else {
		*out_text = malloc(source.size + 1);
		got = *out_text ? source_read(source.fd, *out_text, source.size) : -1;
		if (got < 0)
			tool_error("'%s' can't be read: %s", path,
				   strerror(*out_text ? errno : ENOMEM));
	}
	close(source.fd);
	*out_size = (size_t)got;
	return got >= 0;
}

static bool is_wanted(const struct copy_request *request, const char *name)
{
	for (int i = 0; i < request->name_count; i++)
		if (!fnmatch(request->names[i], name, 0))
			return true;
	return !request->name_count;
}

/* Keep only the entries that the names select. Fail if a name selects no entry. */
static bool choose(const struct copy_request *request, const char *directory,
		   struct manifest *manifest)
{
	size_t kept = 0;

	for (int i = 0; i < request->name_count; i++) {
		size_t j = 0;

		while (j < manifest->count &&
		       fnmatch(request->names[i], manifest->entries[j].info.name, 0) != 0)
			j++;
		if (j == manifest->count) {
			tool_error("the set in '%s' has no '%s'", directory, request->names[i]);
			return false;
		}
	}
	for (size_t i = 0; i < manifest->count; i++)
		if (is_wanted(request, manifest->entries[i].info.name))
			manifest->entries[kept++] = manifest->entries[i];
	manifest->count = kept;
	return true;
}

/* DIR/FILE, with one slash between them. */
static void join(const char *directory, const char *file, char out[PATH_MAX])
{
	size_t length = strlen(directory);

	snprintf(out, PATH_MAX, "%s%s%s", directory,
		 length && directory[length - 1] == '/' ? "" : "/", file);
}

bool copy_read_set(const struct copy_request *request, const char *directory, struct manifest *out)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], why[MANIFEST_WHY_MAX];
	size_t size;

	join(directory, MANIFEST_FILE, path);
	if (!read_whole(path, &text, &size))
		return false;
	if (!manifest_parse(text, size, out, why)) {
		tool_error("'%s' is not a valid manifest: %s", path, why);
		return false;
	}
	return choose(request, directory, out);
}

bool copy_is_diff_of_set(const struct copy_request *request)
{
	size_t length = request->query.diff ? strlen(request->query.diff) : 0;
	struct stat there;

	if (!length || !stat(request->query.diff, &there))
		return length && S_ISDIR(there.st_mode);
	/* stat() failed. If this looks like a set, copy_read_set() reports why it can't be
	 * read. */
	return request->query.diff[length - 1] == '/' || !request->name_count;
}

static int diff_entry(const struct copy_request *request, struct gpushare_session *session,
		      const struct manifest_entry *entry)
{
	struct copy_request one = *request;
	struct gpushare_buffer *buffer;
	struct gpushare_info info;
	char path[PATH_MAX];
	int status = gpushare_stat(session, entry->info.name, &info), code;

	if (status == GPUSHARE_E_NOT_FOUND && !request->wait_ms) {
		printf("%s: only in %s\n", entry->info.name, request->query.diff);
		request->progress->total -= entry->info.size;
		return tool_flush(ANALYSIS_DIFFERS);
	}
	join(request->query.diff, entry->file, path);
	one.query.name = entry->info.name;
	one.query.diff = path;
	one.query.diff_in_set = true;
	buffer = copy_attach(session, one.query.name, request->wait_ms, false);
	if (!buffer)
		return TOOL_FAILED;
	code = copy_dump(&one, buffer);
	status = gpushare_detach(buffer);
	return code == TOOL_DONE && status ? tool_failed(status) : code;
}

/* Compare all entries. A comparison that fails is reported rather than a difference. */
int copy_diff_set(const struct copy_request *request, struct gpushare_session *session)
{
	struct copy_request all = *request;
	struct manifest manifest = {0};
	struct progress progress;
	uint64_t total = 0;
	int found = TOOL_DONE;

	if (!copy_read_set(request, request->query.diff, &manifest)) {
		manifest_finish(&manifest);
		return TOOL_FAILED;
	}
	for (size_t i = 0; i < manifest.count; i++)
		total += manifest.entries[i].info.size;
	progress_begin(&progress, 1, total);
	all.progress = &progress;
	for (size_t i = 0; i < manifest.count; i++) {
		int code = diff_entry(&all, session, &manifest.entries[i]);

		if (code != TOOL_DONE && found != TOOL_FAILED)
			found = code;
	}
	manifest_finish(&manifest);
	return found;
}
