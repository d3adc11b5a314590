/* SPDX-License-Identifier: MIT */
/* Dump many buffers into a directory. All files are first written to a hidden directory inside it.
 * After the last one is complete, the files are moved into place, the manifest last. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "base/cleanup.h"
#include "data/layout.h"
#include "manifest.h"
#include "output.h"
#include "progress.h"

struct set {
	const struct copy_request *request;
	struct gpushare_session *session;
	struct manifest manifest;
	char directory[PATH_MAX / 2];
	char staging[PATH_MAX / 2 + 32];
	bool made; /* this process created `directory` */
	struct progress progress;
};

static int add_entry(const struct gpushare_info *info, void *user)
{
	struct set *set = user;
	struct manifest_entry entry = {.info = *info,
				       .npy = set->request->query.format == FORMAT_NPY};

	manifest_name_file(info, entry.npy, entry.file);
	return !manifest_add(&set->manifest, &entry);
}

static bool add_pattern(struct set *set, const char *pattern)
{
	size_t before = set->manifest.count;
	int status = gpushare_list(set->session, pattern, add_entry, set);

	if (status)
		return !tool_failed(status);
	if (set->manifest.count == before)
		tool_error("no buffer's name matches '%s'; 'gpushare ls' lists the names", pattern);
	return set->manifest.count > before;
}

static bool add_name(struct set *set, const char *name)
{
	struct gpushare_buffer *buffer =
	    copy_attach(set->session, name, set->request->wait_ms, false);
	struct gpushare_info info;
	int status;

	if (!buffer)
		return false;
	status = gpushare_buffer_info(buffer, &info);
	gpushare_detach(buffer);
	return status ? !tool_failed(status) : !add_entry(&info, set);
}

static int by_name(const void *a, const void *b)
{
	const struct manifest_entry *one = a, *other = b;

	return strcmp(one->info.name, other->info.name);
}

/* Collect the selected buffers, each once, sorted by name. */
static bool set_collect(struct set *set)
{
	struct manifest *manifest = &set->manifest;
	size_t kept = 0;

	for (int i = 0; i < set->request->name_count; i++) {
		const char *name = set->request->names[i];

		if (tool_is_pattern(name) ? !add_pattern(set, name) : !add_name(set, name))
			return false;
	}
	qsort(manifest->entries, manifest->count, sizeof(*manifest->entries), by_name);
	for (size_t i = 0; i < manifest->count; i++)
		if (!kept || by_name(&manifest->entries[kept - 1], &manifest->entries[i]) != 0)
			manifest->entries[kept++] = manifest->entries[i];
	manifest->count = kept;
	return true;
}

static bool set_open(struct set *set)
{
	int length = snprintf(set->directory, sizeof(set->directory), "%s", set->request->output);

	if ((size_t)length >= sizeof(set->directory))
		errno = ENAMETOOLONG;
	else if (!mkdir(set->directory, 0777))
		set->made = true;
	if ((size_t)length >= sizeof(set->directory) || (!set->made && errno != EEXIST)) {
		tool_error("'%s' can't be created: %s", set->request->output, strerror(errno));
		return false;
	}
	snprintf(set->staging, sizeof(set->staging), "%s/.gpushare.XXXXXX", set->directory);
	if (mkdtemp(set->staging))
		return true;
	*set->staging = '\0';
	tool_error("'%s' can't be written to: %s", set->directory, strerror(errno));
	return false;
}

static bool write_entry(struct set *set, struct manifest_entry *entry)
{
	struct gpushare_buffer *buffer = copy_attach(set->session, entry->info.name, 0, false);
	char path[PATH_MAX], place[PATH_MAX];
	struct copy_request one = {.progress = &set->progress, .in_set = place};
	int code;

	if (!buffer)
		return false;
	code = gpushare_buffer_info(buffer, &entry->info);
	if (code)
		return !tool_failed(code);
	snprintf(path, sizeof(path), "%s/%s", set->staging, entry->file);
	snprintf(place, sizeof(place), "%s/%s", set->directory, entry->file);
	one.output = path;
	one.query.name = entry->info.name;
	one.query.sha256 = true;
	one.query.out_sha256 = entry->sha256;
	one.query.format = entry->npy ? FORMAT_NPY : FORMAT_RAW;
	if (entry->npy && !layout_of_tags(&entry->info, &one.query.dtype, &one.query.shape)) {
		one.query.dtype = DTYPE_U8;
		one.query.shape = shape_line(entry->info.size);
	}
	one.query.has_shape = entry->npy;
	code = copy_dump(&one, buffer);
	gpushare_detach(buffer);
	return code == TOOL_DONE;
}

static bool write_manifest(struct set *set)
{
	_cleanup_free_ char *text = manifest_format(&set->manifest);
	char path[PATH_MAX];
	struct output output;

	if (!text) {
		tool_error("the manifest can't be made: a tag isn't UTF-8, or there is no memory");
		return false;
	}
	snprintf(path, sizeof(path), "%s/%s", set->staging, MANIFEST_FILE);
	if (output_open(&output, path, &copy_caught) && output_write(&output, text, strlen(text)) &&
	    output_write(&output, "\n", 1) && output_commit(&output))
		return true;
	if (!copy_caught)
		tool_error("writing to '%s' failed: %s; the incomplete set is removed",
			   set->directory, strerror(output.error));
	output_abandon(&output);
	return false;
}

static bool set_write(struct set *set)
{
	double began = progress_seconds();
	char rate[PROGRESS_TEXT];
	uint64_t total = 0;
	bool good = true;

	for (size_t i = 0; i < set->manifest.count; i++)
		total += set->manifest.entries[i].info.size;
	progress_begin(&set->progress, 1, total);
	for (size_t i = 0; good && i < set->manifest.count; i++)
		good = write_entry(set, &set->manifest.entries[i]);
	progress_end(&set->progress);
	progress_rate(total, progress_seconds() - began, rate);
	if (good && set->request->rate)
		tool_error("%s", rate);
	return good && write_manifest(set) && !copy_caught;
}

/* Paths of one file: where it is written first (`from`), where it is moved then (`to`), and where
 * the old file of that name is kept until all new files are in place (`was`). */
struct places {
	char from[PATH_MAX], to[PATH_MAX], was[PATH_MAX];
};

/* `i` is an index of manifest.entries; manifest.count stands for the manifest itself. */
static struct places find_places(const struct set *set, size_t i)
{
	struct places at;
	const struct manifest *manifest = &set->manifest;
	const char *file = i < manifest->count ? manifest->entries[i].file : MANIFEST_FILE;

	snprintf(at.from, sizeof(at.from), "%s/%s", set->staging, file);
	snprintf(at.to, sizeof(at.to), "%s/%s", set->directory, file);
	snprintf(at.was, sizeof(at.was), "%s/%zu", set->staging, i);
	return at;
}

/* Keep the old file until all new files are in place. Make a hard link, so that the old file also
 * keeps its name until then. If linkat() fails, rename the file. */
static bool put_aside(const struct places *at)
{
	struct stat there;

	if (!linkat(AT_FDCWD, at->to, AT_FDCWD, at->was, 0) || errno == ENOENT)
		return true;
	if (lstat(at->to, &there))
		return errno == ENOENT;
	if (!S_ISDIR(there.st_mode))
		return !rename(at->to, at->was);
	errno = EISDIR;
	return false;
}

static bool place(const struct set *set, size_t i)
{
	struct places at = find_places(set, i);
	int why;

	if (put_aside(&at) && !rename(at.from, at.to))
		return true;
	why = errno;
	(void)rename(at.was, at.to); /* if both are links to one file, rename() does nothing */
	tool_error("'%s' can't be put in place: %s; the incomplete set is removed", at.to,
		   strerror(why));
	return false;
}

static void clear_away(const struct set *set, size_t i, bool undo)
{
	struct places at = find_places(set, i);

	if (undo && rename(at.was, at.to))
		unlink(at.to);
	unlink(at.was);
	unlink(at.from);
}

static bool set_close(struct set *set, bool keep)
{
	size_t count = set->manifest.count + 1, placed = 0;

	for (; *set->staging && keep && placed < count; placed += keep)
		keep = place(set, placed);
	for (size_t i = 0; *set->staging && i < count; i++)
		clear_away(set, i, i < placed && !keep);
	if (*set->staging)
		rmdir(set->staging);
	if (!keep && set->made)
		rmdir(set->directory);
	return keep;
}

int copy_save(const struct copy_request *request, struct gpushare_session *session)
{
	static struct set set;
	bool good;

	set.request = request;
	set.session = session;
	good = set_collect(&set);
	if (good) {
		copy_catch_signals();
		good = set_open(&set) && set_write(&set);
		good = set_close(&set, good);
	}
	manifest_finish(&set.manifest);
	if (!good && copy_caught)
		copy_die("interrupted; the incomplete set was removed");
	return good ? TOOL_DONE : TOOL_FAILED;
}
