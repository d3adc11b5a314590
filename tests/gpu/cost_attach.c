// SPDX-License-Identifier: MIT
/*
 * The cost of attaching in microseconds: `cost_attach SIZE ROUNDS [MANY]`. Cold: in turns with the
 * driver's own calls on a handle or descriptor that is already there. Warm: buffers that this
 * session has attached already, WARM_TURN at a time. With MANY, only that many buffers of a kind:
 * attached together, in turns with as many of the driver's own calls. Another process, forked
 * before any use of CUDA, owns the buffers.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cost_steps.h"

#define WARM_UP 5
#define WARM_TURN 200
#define GPUS_MAX 64

static struct gpushare_session *session;
static size_t size, set_count;

static void own_one(const char *name, const char *kind)
{
	const struct gpushare_alloc_options how = {
	    .device = 0,
	    .flags = *kind == 'v' ? GPUSHARE_FLAG_VMM : 0,
	};
	struct gpushare_buffer *buffer;

	cost_must(gpushare_alloc_with(session, name, size, &how, &buffer), name);
	cost_must(gpushare_copy_to(buffer, 0, kind, 1), name);
}

static const char *set_name(const char *kind, size_t index)
{
	static char name[32];

	snprintf(name, sizeof(name), "%s/%zu", kind, index);
	return name;
}

static void own(int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cost_must(gpushare_open(NULL, &session), "gpushare_open");
	own_one("ipc", "ipc");
	own_one("vmm", "vmm");
	for (size_t i = 0; i < set_count; i++) {
		own_one(set_name("ipc", i), "ipc");
		own_one(set_name("vmm", i), "vmm");
	}
	gpu_must(write(ready, "", 1) != 1, "write");
	for (;;)
		pause();
}

/*
 * Ask the registry for the record and its handle or descriptor. The registry keeps the attachment.
 */
static gpushare_AttachReply ask(const char *name, int *out_fd)
{
	request what = {.which_verb = gpushare_Request_attach_tag};
	gpushare_AttachReply answer;
	struct session_answer got;

	strcpy(what.verb.attach.name, name);
	cost_must(session_ask_passing(session, &what, BODY(attach, &answer), -1, &got), name);
	*out_fd = got.fd;
	return answer;
}

/* Opened by the driver's own calls. */
struct bare {
	gpushare_AttachReply with;
	int fd;
	cu_deviceptr pointer;
	cu_mem_handle handle; /* vmm */
};

static void open_ipc(struct bare *bare)
{
	cu_ipc_mem_handle handle;

	memcpy(&handle, bare->with.handle, sizeof(handle));
	gpu_must(cost_real.cuIpcOpenMemHandle_v2(&bare->pointer, handle, CU_IPC_LAZY_PEER_ACCESS),
		 "cuIpcOpenMemHandle");
}

static void close_ipc(struct bare *bare)
{
	gpu_must(cost_real.cuIpcCloseMemHandle(bare->pointer), "cuIpcCloseMemHandle");
}

/*
 * Fill `access` for device 0, and with `peers`, as the library does, for the devices that can
 * access it. Return the count.
 */
static size_t reaching(bool peers, cu_mem_access access[GPUS_MAX])
{
	int devices = 1, can;
	size_t found = 0;

	if (peers)
		gpu_must(cost_real.cuDeviceGetCount(&devices), "cuDeviceGetCount");
	for (int device = 0; device < devices && found < GPUS_MAX; device++) {
		if (device && (cost_real.cuDeviceCanAccessPeer(&can, device, 0) != CU_OK || !can))
			continue;
		access[found++] =
		    (cu_mem_access){{CU_LOCATION_DEVICE, device}, CU_ACCESS_READ_WRITE};
	}
	return found;
}

static void map_vmm(struct bare *bare, bool peers)
{
	cu_mem_access access[GPUS_MAX];
	size_t bytes = bare->with.buffer.base_size;
	size_t count = reaching(peers, access);

	gpu_must(cost_real.cuMemImportFromShareableHandle(&bare->handle, (void *)(intptr_t)bare->fd,
							  (cu_handle_type)CU_HANDLE_POSIX_FD),
		 "cuMemImportFromShareableHandle");
	gpu_must(cost_real.cuMemAddressReserve(&bare->pointer, bytes, 0, 0, 0),
		 "cuMemAddressReserve");
	gpu_must(cost_real.cuMemMap(bare->pointer, bytes, 0, bare->handle, 0), "cuMemMap");
	gpu_must(cost_real.cuMemSetAccess(bare->pointer, bytes, access, count), "cuMemSetAccess");
}

static void open_vmm(struct bare *bare)
{
	map_vmm(bare, false);
}

static void open_vmm_peers(struct bare *bare)
{
	map_vmm(bare, true);
}

static void close_vmm(struct bare *bare)
{
	size_t bytes = bare->with.buffer.base_size;

	gpu_must(cost_real.cuMemUnmap(bare->pointer, bytes), "cuMemUnmap");
	gpu_must(cost_real.cuMemAddressFree(bare->pointer, bytes), "cuMemAddressFree");
	gpu_must(cost_real.cuMemRelease(bare->handle), "cuMemRelease");
}

struct bare_calls {
	const char *kind, *label;
	void (*open)(struct bare *bare);
	void (*close)(struct bare *bare);
};

static const struct bare_calls bare_calls[] = {
    {"ipc", "ipc", open_ipc, close_ipc},
    {"vmm", "vmm", open_vmm, close_vmm},
    {"vmm", "vmm peers", open_vmm_peers, close_vmm},
};

static double bare_us(const struct bare_calls *calls, struct bare *bare, size_t count)
{
	double started = clock_us();

	for (size_t i = 0; i < count; i++)
		calls->open(&bare[i]);
	started = clock_us() - started;
	for (size_t i = 0; i < count; i++)
		calls->close(&bare[i]);
	return started;
}

/* cost_us keeps only the attach's steps. */
static double ours(const char *name)
{
	struct gpushare_buffer *buffer;
	double started, steps[COST_COUNT];
	char first = 0;

	memset(cost_us, 0, sizeof(cost_us));
	started = clock_us();
	cost_must(gpushare_attach(session, name, NULL, &buffer), name);
	started = clock_us() - started;
	memcpy(steps, cost_us, sizeof(steps));
	gpu_must(cost_real.cuMemcpyDtoH_v2(&first, gpushare_pointer(buffer), 1) || first != *name,
		 "what the owner wrote");
	cost_must(gpushare_detach(buffer), name);
	memcpy(cost_us, steps, sizeof(steps));
	return started;
}

static void cold(const struct bare_calls *calls, size_t rounds)
{
	static struct cost cost;
	struct bare bare = {.fd = -1};

	cost = (struct cost){.name = calls->label};
	bare.with = ask(calls->kind, &bare.fd);
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		bool first = i % 2;
		double theirs = first ? bare_us(calls, &bare, 1) : 0, mine = ours(calls->kind);

		if (!first)
			theirs = bare_us(calls, &bare, 1);
		if (i >= WARM_UP)
			cost_add(&cost, theirs, mine);
	}
	cost_report(&cost);
	if (bare.fd >= 0)
		close(bare.fd);
}

static double set_us(const char *const *names)
{
	struct gpushare_buffer **buffers = calloc(set_count, sizeof(struct gpushare_buffer *));
	double started = clock_us();

	gpu_must(!buffers, "calloc");
	cost_must(gpushare_attach_many(session, names, set_count, NULL, buffers), *names);
	started = clock_us() - started;
	for (size_t i = 0; i < set_count; i++)
		cost_must(gpushare_detach(buffers[i]), names[i]);
	free(buffers);
	return started;
}

/* The handles come over a separate session: the other one has nothing attached before a round. */
static void set(const struct bare_calls *calls, size_t rounds)
{
	static double theirs[COST_ROUNDS_MAX], mine[COST_ROUNDS_MAX], ratio[COST_ROUNDS_MAX];
	struct gpushare_session *attaching = session;
	struct bare *bare = calloc(set_count, sizeof(*bare));
	char **names = calloc(set_count, sizeof(*names));
	char label[32];

	gpu_must(!bare || !names, "calloc");
	cost_must(gpushare_open(NULL, &session), "gpushare_open");
	for (size_t i = 0; i < set_count; i++) {
		names[i] = strdup(set_name(calls->kind, i));
		bare[i].with = ask(names[i], &bare[i].fd);
	}
	for (size_t i = 0; i < rounds + 1; i++) {
		size_t at = i ? i - 1 : 0; /* the first is a warm-up */
		struct gpushare_session *asking = session;

		theirs[at] = bare_us(calls, bare, set_count) / (double)set_count;
		session = attaching;
		mine[at] = set_us((const char *const *)names) / (double)set_count;
		session = asking;
		ratio[at] = mine[at] / theirs[at];
	}
	for (size_t i = 0; i < set_count; i++) {
		free(names[i]);
		if (bare[i].fd >= 0)
			close(bare[i].fd);
	}
	free(names);
	free(bare);
	cost_must(gpushare_close(session), "gpushare_close");
	session = attaching;
	snprintf(label, sizeof(label), "%s set", calls->label);
	cost_say(label, "bare", theirs, rounds);
	cost_say(label, "ours", mine, rounds);
	cost_say(label, "ratio", ratio, rounds);
}

static void warm(const char *name, size_t rounds)
{
	static double attach_us[COST_ROUNDS_MAX], detach_us[COST_ROUNDS_MAX];
	struct gpushare_buffer *held[WARM_UP], *buffer = NULL;
	char label[32];

	snprintf(label, sizeof(label), "%s again", name);
	for (int i = 0; i < WARM_UP; i++)
		cost_must(gpushare_attach(session, name, NULL, &held[i]), name);
	for (size_t i = 0; i < rounds; i++) {
		double started = clock_us(), between;

		for (int turn = 0; turn < WARM_TURN; turn++)
			cost_must(gpushare_attach(session, name, NULL, &buffer), name);
		between = clock_us();
		for (int turn = 0; turn < WARM_TURN; turn++)
			cost_must(gpushare_detach(buffer), name);
		detach_us[i] = (clock_us() - between) / WARM_TURN;
		attach_us[i] = (between - started) / WARM_TURN;
	}
	cost_say(label, "attach", attach_us, rounds);
	cost_say(label, "detach", detach_us, rounds);
	for (int i = 0; i < WARM_UP; i++)
		cost_must(gpushare_detach(held[i]), name);
}

int main(int argc, char **argv)
{
	bool sized = argc == 3 || argc == 4;
	size_t rounds = sized ? strtoul(argv[2], NULL, 0) : 0;
	struct rlimit files;
	int ready[2];
	char byte;

	size = sized ? strtoul(argv[1], NULL, 0) : 0;
	set_count = argc == 4 ? strtoul(argv[3], NULL, 0) : 0;
	if (!size || !rounds || rounds > COST_ROUNDS_MAX || (argc == 4 && !set_count)) {
		fprintf(stderr, "usage: cost_attach SIZE ROUNDS [MANY]\n");
		return 2;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max; /* each vmm buffer has a descriptor or two here */
	setrlimit(RLIMIT_NOFILE, &files);
	gpu_must(pipe(ready), "pipe");
	switch (fork()) {
	case -1:
		perror("fork");
		return 1;
	case 0:
		own(ready[1]);
	}
	close(ready[1]);
	gpu_must(read(ready[0], &byte, 1) != 1, "the owner");
	cost_start();
	cost_must(gpushare_open(NULL, &session), "gpushare_open");
	for (size_t i = 0; i < sizeof(bare_calls) / sizeof(*bare_calls); i++) {
		if (set_count)
			set(&bare_calls[i], rounds);
		else
			cold(&bare_calls[i], rounds);
	}
	if (!set_count) {
		warm("ipc", rounds);
		warm("vmm", rounds);
	}
	cost_must(gpushare_close(session), "gpushare_close");
	return 0;
}
