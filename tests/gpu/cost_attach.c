// SPDX-License-Identifier: MIT
/*
 * The cost of attaching in microseconds: `cost_attach SIZE ROUNDS`. Cold: in turns with the
 * driver's own calls on a handle or descriptor that is already there. Warm: buffers that this
 * session has attached already, WARM_TURN at a time. Another process, forked before any use of
 * CUDA, owns the buffers.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cost_steps.h"

#define WARM_UP 5
#define WARM_TURN 200
#define GPUS_MAX 64

static struct gpushare_session *session;
static size_t size;

static void own(int ready)
{
	const struct gpushare_alloc_options mapped = {.device = 0, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_buffer *ipc, *vmm;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cost_must(gpushare_open(NULL, &session), "gpushare_open");
	cost_must(gpushare_alloc(session, "ipc", 0, size, &ipc), "gpushare_alloc");
	cost_must(gpushare_alloc_with(session, "vmm", size, &mapped, &vmm), "gpushare_alloc_with");
	cost_must(gpushare_copy_to(ipc, 0, "i", 1) || gpushare_copy_to(vmm, 0, "v", 1), "copy_to");
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
	unsigned int readings;

	strcpy(what.verb.attach.name, name);
	cost_must(session_ask_passing(session, &what, gpushare_Reply_attach_tag, &answer,
				      sizeof(answer), &readings, -1, out_fd),
		  name);
	return answer;
}

static double bare_ipc(const gpushare_AttachReply *with, int fd)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer;
	double started;

	memcpy(&handle, with->handle, sizeof(handle));
	started = clock_us();
	gpu_must(cost_real.cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS),
		 "cuIpcOpenMemHandle");
	started = clock_us() - started;
	gpu_must(cost_real.cuIpcCloseMemHandle(pointer), "cuIpcCloseMemHandle");
	return started;
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

static double map_vmm(const gpushare_AttachReply *with, int fd, bool peers)
{
	cu_mem_access access[GPUS_MAX];
	size_t bytes = with->buffer.base_size;
	cu_deviceptr pointer;
	cu_mem_handle handle;
	size_t count = reaching(peers, access);
	double started = clock_us();

	gpu_must(cost_real.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
							  (cu_handle_type)CU_HANDLE_POSIX_FD),
		 "cuMemImportFromShareableHandle");
	gpu_must(cost_real.cuMemAddressReserve(&pointer, bytes, 0, 0, 0), "cuMemAddressReserve");
	gpu_must(cost_real.cuMemMap(pointer, bytes, 0, handle, 0), "cuMemMap");
	gpu_must(cost_real.cuMemSetAccess(pointer, bytes, access, count), "cuMemSetAccess");
	started = clock_us() - started;
	gpu_must(cost_real.cuMemUnmap(pointer, bytes), "cuMemUnmap");
	gpu_must(cost_real.cuMemAddressFree(pointer, bytes), "cuMemAddressFree");
	gpu_must(cost_real.cuMemRelease(handle), "cuMemRelease");
	return started;
}

static double bare_vmm(const gpushare_AttachReply *with, int fd)
{
	return map_vmm(with, fd, false);
}

static double bare_vmm_peers(const gpushare_AttachReply *with, int fd)
{
	return map_vmm(with, fd, true);
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

static void cold(const char *name, const char *label,
		 double (*bare)(const gpushare_AttachReply *, int), size_t rounds)
{
	static struct cost cost;
	gpushare_AttachReply with;
	int fd = -1;

	cost = (struct cost){.name = label};
	with = ask(name, &fd);
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		bool first = i % 2;
		double bare_us = first ? bare(&with, fd) : 0, ours_us = ours(name);

		if (!first)
			bare_us = bare(&with, fd);
		if (i >= WARM_UP)
			cost_add(&cost, bare_us, ours_us);
	}
	cost_report(&cost);
	if (fd >= 0)
		close(fd);
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
	size_t rounds = argc == 3 ? strtoul(argv[2], NULL, 0) : 0;
	int ready[2];
	char byte;

	size = argc == 3 ? strtoul(argv[1], NULL, 0) : 0;
	if (!size || !rounds || rounds > COST_ROUNDS_MAX) {
		fprintf(stderr, "usage: cost_attach SIZE ROUNDS\n");
		return 2;
	}
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
	cold("ipc", "ipc", bare_ipc, rounds);
	cold("vmm", "vmm", bare_vmm, rounds);
	cold("vmm", "vmm peers", bare_vmm_peers, rounds);
	warm("ipc", rounds);
	warm("vmm", rounds);
	cost_must(gpushare_close(session), "gpushare_close");
	return 0;
}
