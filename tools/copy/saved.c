/* SPDX-License-Identifier: MIT */
/* Read the manifest of a saved set, and compare a saved set with existing buffers. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "data/analysis.h"
#include "data/source.h"
#include "manifest.h"
#include "progress.h"

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
	char path[PATH_MAX], why[MANIFEST_WHY_MAX];
	struct source source;
	FILE *file;
	bool good;

	join(directory, MANIFEST_FILE, path);
	file = source_open(&source, path, true, false) ? fdopen(source.fd, "r") : NULL;
	if (!file) {
		tool_error("'%s' can't be read: %s", path,
			   *source.why ? source.why : strerror(ENOMEM));
		return false;
	}
	snprintf(why, sizeof(why), "it has over %zu bytes", MANIFEST_SIZE_MAX);
	good = source.size <= MANIFEST_SIZE_MAX && manifest_read(file, out, why);
	fclose(file);
	if (!good)
		tool_error("'%s' is not a valid manifest: %s", path, why);
	return good && choose(request, directory, out);
}

bool copy_is_diff_of_set(const struct copy_request *request)
{
	size_t length = request->query.diff ? strlen(request->query.diff) : 0;
	struct stat there;

	if (!length || !stat(request->query.diff, &there))
		return length && S_ISDIR(there.st_mode);
	/* stat() failed. If the user probably means a set, copy_read_set() reports why it can't be
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

/* Compare all entries. If a comparison fails, returns TOOL_FAILED, even if others found
 * differences. */
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
