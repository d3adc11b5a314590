/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_API_MORE_H
#define TESTS_FAULTS_API_MORE_H
/* Scenes with other processes: publishers, holders, access rights, another registry. */
#include "api_serve.h"
#include "api/dlpack.h"

/* Retry: `is` may fail too, but only one call is made to fail. */
static int comes_true(int (*is)(const char *name), const char *name)
{
	for (int tries = 0; tries < 200; tries++) {
		if (is(name))
			return 1;
		usleep(10000);
	}
	return 0;
}

static int is_listed(const char *name)
{
	int seen = 0;

	return !gpushare_list(session, name, count_one, &seen) && seen == 1;
}

static int is_held(const char *name)
{
	struct gpushare_info info;

	return !gpushare_stat(session, name, &info) && info.attachers == 1;
}

static int is_gone(const char *name)
{
	struct gpushare_info info;

	return gpushare_stat(session, name, &info) == GPUSHARE_E_NOT_FOUND;
}

/* Consume what another process publishes repeatedly. */
static void consume(void)
{
	struct gpushare_buffer *buffer = UNTOUCHED;
	uint64_t first = 0, seen = 0;

	if (!made("attach", gpushare_attach(session, "other", NULL, &buffer), &buffer))
		return;
	if (did("join", gpushare_join(buffer, &first)) &&
	    did("acquire", gpushare_acquire_host(buffer, first, 2000, &seen))) {
		wrong_unless(seen >= first, "acquire: not what was published");
		if (did("acquire in stream", gpushare_acquire(buffer, NULL, seen)))
			contents(buffer, 7);
		did("release in stream", gpushare_release(buffer, NULL, seen));
		streams_have_come();
		did("release", gpushare_release_host(buffer, seen));
		did("status", gpushare_order_status(buffer));
	}
	did("leave", gpushare_leave(buffer));
	did("detach", gpushare_detach(buffer));
}

/* Free a buffer while another process has it attached; that process detaches later. */
static void deferred(void)
{
	struct gpushare_buffer *buffer = UNTOUCHED;
	int seen = 0;

	if (!made("alloc", gpushare_alloc(session, "mine", -1, SIZE, &buffer), &buffer))
		return;
	fill(buffer, 3);
	wrong_unless(comes_true(is_held, "mine"), "nobody holds it");
	if (did("free", gpushare_free(buffer)))
		must_be_gone("mine", "free");
	did("list_deferred", gpushare_list_deferred(session, "*", count_one, &seen));
	wrong_unless(seen <= 1, "list_deferred: more than one");
}

static int count_holder(const struct gpushare_holder *holder, void *user)
{
	++*(int *)user;
	return 0;
}

/* Ask about other processes' buffers. The second time the index may answer. */
static void ask(void)
{
	struct gpushare_registry_info has;
	struct gpushare_info info;
	int seen = 0;

	for (int i = 0; i < 2; i++) {
		if (did("stat", gpushare_stat(session, "othervmm", &info)))
			wrong_unless(info.size == SIZE, "stat: another size");
		if (did("stat nothing", gpushare_stat(session, "nothing", &info)))
			wrong_unless(0, "stat: there is nothing");
	}
	if (did("list_events", gpushare_list_events(session, "*", count_one, &seen)))
		wrong_unless(seen == 1, "list_events: not one");
	seen = 0;
	did("holders", gpushare_holders(session, "othervmm", 0, count_holder, &seen));
	wrong_unless(!seen, "holders: one");
	if (did("stat_registry", gpushare_stat_registry(session, &has)))
		wrong_unless(has.names == 4, "stat_registry: other names");
}

static void rights(void)
{
	const struct gpushare_share_options mine = {.mode = 0640, .group = "0"};
	const struct gpushare_alloc_options nobodys = {
	    .device = -1, .mode = 0640, .group = "no-such-group"};
	const struct gpushare_attach_options reading = {.read_only = 1};
	struct gpushare_buffer *buffer = UNTOUCHED, *other = UNTOUCHED;
	struct gpushare_info info;
	cu_deviceptr pointer;

	if (gpushare_alloc_with(session, "mine", SIZE, &nobodys, &buffer) == GPUSHARE_OK)
		wrong_unless(0, "a group that is not there");
	must_be_gone("mine", "a refused alloc");
	must(cu.cuMemAlloc_v2(&pointer, SIZE) == 0, "cuMemAlloc");
	buffer = UNTOUCHED;
	if (made("share", gpushare_share_with(session, "mine", pointer, SIZE, &mine, &buffer),
		 &buffer)) {
		if (did("stat", gpushare_stat(session, "mine", &info)))
			wrong_unless(info.mode == 0640 && !info.owner_gid, "stat: other rights");
		did("free", gpushare_free(buffer));
	}
	must(cu.cuMemFree_v2(pointer) == 0, "cuMemFree");
	if (!made("attach", gpushare_attach(session, "othervmm", &reading, &other), &other))
		return;
	wrong_unless(gpushare_is_read_only(other), "attach: it can be written");
	contents(other, 7);
	did("detach", gpushare_detach(other));
}

/* Keep, adopt, unlink. If the unlink fails, the caller of this program has to remove the name. */
static void keep(void)
{
	struct gpushare_alloc_options options = {.device = -1, .flags = GPUSHARE_FLAG_KEEP};
	struct gpushare_buffer *buffer = UNTOUCHED;
	int kept;

	if (!made("alloc", gpushare_alloc_with(session, "kept", SIZE, &options, &buffer), &buffer))
		return;
	kept = fill(buffer, 3);
	kept &= did("free", gpushare_free(buffer));
	options.adopt = 1;
	buffer = UNTOUCHED;
	if (made("adopt", gpushare_alloc_with(session, "kept", SIZE, &options, &buffer), &buffer)) {
		if (gpushare_was_adopted(buffer) && kept)
			contents(buffer, 3);
		did("free", gpushare_free(buffer));
	}
	if (did("unlink", gpushare_unlink(session, "kept")))
		must_be_gone("kept", "unlink");
}

/*
 * The caller replaces the registry. Afterwards the names and the attachment must exist again. This
 * program creates the file "up" to ask for it; the file "go" says that the new registry runs.
 */
static void restart(void)
{
	const struct gpushare_alloc_options mapped = {.device = -1, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_buffer *mine = UNTOUCHED, *vmm = UNTOUCHED, *other = UNTOUCHED;

	made("alloc", gpushare_alloc(session, "mine", -1, SIZE, &mine), &mine);
	made("alloc", gpushare_alloc_with(session, "minevmm", SIZE, &mapped, &vmm), &vmm);
	made("attach", gpushare_attach(session, "othervmm", NULL, &other), &other);
	touch("up");
	for (int tries = 0; access("go", F_OK) && tries < 1000; tries++)
		usleep(10000);
	is_listed("mine"); /* this process has met the new registry, even if it has no buffers */
	wrong_unless(!mine || comes_true(is_listed, "mine"), "mine has lost its name");
	wrong_unless(!vmm || comes_true(is_listed, "minevmm"), "minevmm has lost its name");
	wrong_unless(!other || comes_true(is_held, "othervmm"), "the attachment is not known");
	if (other)
		contents(other, 7);
	if (mine && did("free", gpushare_free(mine)))
		wrong_unless(comes_true(is_gone, "mine"), "mine, freed: the name is there");
	if (vmm && did("free", gpushare_free(vmm)))
		wrong_unless(comes_true(is_gone, "minevmm"), "minevmm, freed: the name is there");
	if (other)
		did("detach", gpushare_detach(other));
}

/*
 * Other forms of the memory: a tensor, a sink, a mirror that is written back, a map that is
 * flushed.
 */
static int drop(const void *data, size_t size, void *user)
{
	wrong_unless(!memcmp(data, bytes + *(size_t *)user, size), "read: other contents");
	*(size_t *)user += size;
	return 0;
}

static int draw(void *data, size_t size, void *user)
{
	memcpy(data, bytes + *(size_t *)user, size);
	*(size_t *)user += size;
	return 0;
}

static void written(struct gpushare_buffer *buffer)
{
	struct gpushare_mirror *mirror = UNTOUCHED;
	struct gpushare_map *map = UNTOUCHED;

	if (made("mirror", gpushare_mirror_open(buffer, 0, 4096, GPUSHARE_WRITE, &mirror),
		 &mirror)) {
		memcpy(gpushare_mirror_data(mirror), bytes, 4096);
		did("mirror_sync", gpushare_mirror_sync(mirror));
		did("mirror_close", gpushare_mirror_close(mirror));
	}
	if (made("map", gpushare_map(buffer, 0, SIZE, GPUSHARE_READ | GPUSHARE_WRITE, &map),
		 &map)) {
		memcpy(gpushare_map_data(map), bytes, SIZE);
		did("map_flush", gpushare_map_flush(map, 0, SIZE));
		did("map_invalidate", gpushare_map_invalidate(map, 0, SIZE));
		did("unmap", gpushare_unmap(map));
	}
}

static void host(void)
{
	const struct gpushare_alloc_options options = {.device = -1, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_buffer *buffer = UNTOUCHED;
	size_t drawn = 0, dropped = 0;
	void *tensor = UNTOUCHED;

	if (!made("alloc", gpushare_alloc_with(session, "mine", SIZE, &options, &buffer), &buffer))
		return;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(3 + i % 251);
	if (did("write", gpushare_write(buffer, 0, SIZE, draw, &drawn))) {
		did("read", gpushare_read(buffer, 0, SIZE, drop, &dropped));
		written(buffer);
		contents(buffer, 3);
	}
	if (made("dlpack", gpushare_dlpack(buffer, NULL, &tensor), &tensor))
		((struct dlpack_plain *)tensor)->deleter(tensor);
	did("free", gpushare_free(buffer));
}

#endif
