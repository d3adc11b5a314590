// SPDX-License-Identifier: MIT
/*
 * A program that uses the API while one call inside the library fails: `api_faults SCENE...`. It
 * prints one line for each call. It prints `wrong: ...` if the contract is broken: a failure
 * without a sentence, an out_ argument set by a failed call, wrong contents, a name without a
 * buffer, something left behind. The last line is `left N BYTES`: descriptors and device bytes more
 * than before the session was opened.
 */
#include "api_more.h"

static void about(struct gpushare_buffer *buffer, const char *name)
{
	struct gpushare_tag tag = {.key = "dtype", .value = "f16"};
	struct gpushare_info info;
	enum gpushare_state state;
	int seen = 0;

	if (did("stat", gpushare_stat(session, name, &info)))
		wrong_unless(info.size == SIZE, "stat: another size");
	if (did("list", gpushare_list(session, name, count_one, &seen)))
		wrong_unless(seen == 1, "list: not once there");
	did("tag", gpushare_tag(session, name, &tag, 1));
	if (did("state", gpushare_state(buffer, &state)))
		wrong_unless(state == GPUSHARE_STATE_SHARED, "state: not shared");
}

static void host_views(struct gpushare_buffer *buffer, int mappable)
{
	struct gpushare_mirror *mirror = UNTOUCHED;
	struct gpushare_map *map = UNTOUCHED;

	if (made("mirror", gpushare_mirror_open(buffer, 0, 4096, GPUSHARE_READ, &mirror),
		 &mirror)) {
		wrong_unless(!memcmp(gpushare_mirror_data(mirror), bytes, 4096),
			     "mirror: other contents");
		did("mirror_close", gpushare_mirror_close(mirror));
	}
	if (mappable && made("map", gpushare_map(buffer, 0, SIZE, GPUSHARE_READ, &map), &map)) {
		wrong_unless(!memcmp(gpushare_map_data(map), bytes, SIZE), "map: other contents");
		did("unmap", gpushare_unmap(map));
	}
}

static void order(struct gpushare_buffer *buffer)
{
	uint64_t sequence = 0, seen = 0;

	if (did("publish", gpushare_publish_host(buffer, &sequence)) &&
	    did("acquire", gpushare_acquire_host(buffer, sequence, 2000, &seen)))
		wrong_unless(seen >= sequence, "acquire: not what was published");
	if (did("publish in stream", gpushare_publish(buffer, NULL, &sequence)))
		did("acquire in stream", gpushare_acquire(buffer, NULL, sequence));
	streams_have_come();
}

static void own(const char *name, uint32_t flags)
{
	const struct gpushare_alloc_options options = {.device = -1, .flags = flags};
	struct gpushare_buffer *buffer = UNTOUCHED;
	int filled;

	if (!made("alloc", gpushare_alloc_with(session, name, SIZE, &options, &buffer), &buffer)) {
		must_be_gone(name, "a failed alloc");
		return;
	}
	filled = fill(buffer, 3);
	about(buffer, name);
	if (filled)
		host_views(buffer, flags != 0);
	order(buffer);
	if (did("free", gpushare_free(buffer)))
		must_be_gone(name, "free");
}

/* Name parts of a buffer: all of them, or none. */
static void parts(void)
{
	const struct gpushare_alloc_options mapped = {.device = -1, .flags = GPUSHARE_FLAG_VMM};
	const struct gpushare_tag tag = {"half", "yes"};
	const struct gpushare_part halves[] = {{"left", 0, SIZE / 2, &tag, 1},
					       {"right", SIZE / 2, SIZE / 2, &tag, 1}};
	struct gpushare_buffer *buffer = UNTOUCHED;
	struct gpushare_info info;

	if (!made("alloc", gpushare_alloc_with(session, "mine", SIZE, &mapped, &buffer), &buffer))
		return;
	fill(buffer, 3);
	if (did("parts", gpushare_share_parts(buffer, halves, 2))) {
		if (did("stat", gpushare_stat(session, "right", &info)))
			wrong_unless(info.base_offset == SIZE / 2, "stat: another place");
	} else {
		must_be_gone("left", "failed parts");
		must_be_gone("right", "failed parts");
	}
	if (did("free", gpushare_free(buffer))) {
		must_be_gone("left", "free");
		must_be_gone("right", "free");
	}
}

/* Share memory that the program has allocated itself. */
static void share(const char *name)
{
	struct gpushare_buffer *buffer = UNTOUCHED;
	cu_deviceptr pointer;

	must(cu.cuMemAlloc_v2(&pointer, SIZE) == 0, "cuMemAlloc");
	if (made("share", gpushare_share(session, name, pointer, SIZE, &buffer), &buffer)) {
		fill(buffer, 9);
		if (did("detach", gpushare_detach(buffer)))
			must_be_gone(name, "detach");
	} else {
		must_be_gone(name, "a failed share");
	}
	must(cu.cuMemFree_v2(pointer) == 0, "cuMemFree");
}

/* Attach a buffer that another process has filled with the pattern of 7. */
static void attach(const char *name, int host_only)
{
	const struct gpushare_attach_options options = {.wait_ms = 100, .host_only = host_only};
	struct gpushare_buffer *buffer = UNTOUCHED;
	struct gpushare_map *map = UNTOUCHED;

	if (!made("attach", gpushare_attach(session, name, &options, &buffer), &buffer))
		return;
	contents(buffer, 7);
	if (host_only && made("map", gpushare_map(buffer, 0, SIZE, GPUSHARE_READ, &map), &map)) {
		wrong_unless(*(unsigned char *)gpushare_map_data(map) == 7, "map: other contents");
		did("unmap", gpushare_unmap(map));
	}
	did("join", gpushare_join(buffer, NULL));
	did("detach", gpushare_detach(buffer));
}

static void attach_set(void)
{
	static const char *const names[] = {"other", "othervmm", "other"};
	struct gpushare_buffer *set[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};

	if (!made("attach many", gpushare_attach_many(session, names, 3, NULL, set), set)) {
		wrong_unless(set[1] == UNTOUCHED, "attach many: it set a part");
		return;
	}
	wrong_unless(set[0] == set[2], "attach many: two buffers for one name");
	for (int i = 0; i < 3; i++) {
		contents(set[i], 7);
		did("detach", gpushare_detach(set[i]));
	}
}

static void events(void)
{
	struct gpushare_event *event = UNTOUCHED, *other = UNTOUCHED;

	if (!made("create", gpushare_event_create(session, "e", -1, 0, &event), &event))
		must_be_gone("e", "a failed create");
	if (event && did("record", gpushare_event_record(event, NULL)))
		did("wait", gpushare_event_wait(event, NULL));
	if (made("open event", gpushare_event_open(session, "step", NULL, &other), &other)) {
		did("wait host", gpushare_event_wait_host(other, 2000));
		did("close event", gpushare_event_close(other));
	}
	if (event && did("close event", gpushare_event_close(event)))
		must_be_gone("e", "closing an event");
}

static void watch(void)
{
	struct gpushare_watch *watch = UNTOUCHED;
	struct gpushare_buffer *buffer = UNTOUCHED;
	struct gpushare_notice notice;

	if (!made("watch", gpushare_watch(session, "seen", &watch), &watch))
		return;
	if (made("alloc", gpushare_alloc(session, "seen", -1, SIZE, &buffer), &buffer)) {
		if (did("next", gpushare_watch_next(watch, 1000, &notice)))
			wrong_unless(notice.kind == GPUSHARE_NOTICE_SHARE ||
					 notice.kind >= GPUSHARE_NOTICE_LOST,
				     "next: another kind");
		did("free", gpushare_free(buffer));
	}
	gpushare_watch_close(watch);
}

static void play(const char *scene)
{
	static const struct {
		const char *name;
		void (*plays)(void);
	} scenes[] = {
	    {"events", events}, {"watch", watch},   {"consume", consume}, {"deferred", deferred},
	    {"ask", ask},	{"rights", rights}, {"keep", keep},	  {"restart", restart},
	    {"host", host},	{"parts", parts},   {"set", attach_set},
	};

	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (!strcmp(scene, scenes[i].name)) {
			scenes[i].plays();
			return;
		}
	if (!strcmp(scene, "ipc"))
		own("mine", 0);
	else if (!strcmp(scene, "vmm"))
		own("mine", GPUSHARE_FLAG_VMM);
	else if (!strcmp(scene, "unified"))
		own("mine", GPUSHARE_FLAG_UNIFIED);
	else if (!strcmp(scene, "share"))
		share("mine");
	else if (!strcmp(scene, "mapped"))
		attach("othervmm", 1);
	else
		attach(scene, 0);
}

int main(int argc, char **argv)
{
	struct gpushare_session *opened = UNTOUCHED;
	size_t bytes_before;
	int before;

	setvbuf(stdout, NULL, _IOLBF, 0);
	cuda_start();
	if (argc == 3)
		serve_as(argv[1], argv[2]);
	before = descriptors();
	bytes_before = free_bytes();
	if (made("open", gpushare_open(NULL, &opened), &opened)) {
		session = opened;
		for (int i = 1; i < argc; i++)
			play(argv[i]);
		did("close", gpushare_close(session));
	}
	printf("left %d %zd\n", descriptors_since(before), bytes_since(bytes_before));
	return 0;
}
