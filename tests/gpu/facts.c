/* SPDX-License-Identifier: MIT */
/*
 * What the shim needs to know of a real driver: `facts` asks all, `facts SECTION` asks some.
 * No shim, no registry. One line an answer, "SECTION: question: answer".
 */
#include "facts.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECTION_SECONDS 60

struct facts_driver cu;
cu_device facts_device;
cu_context facts_context;
static const char *section = "facts";

static const struct {
	const char *name;
	void (*ask)(void);
} sections[] = {
#define S(name) {#name, facts_##name},
    FACTS_SECTIONS(S)
#undef S
};
#define SECTION_COUNT (sizeof(sections) / sizeof(*sections))

static cu_result no_call(void)
{
	return FACTS_NO_CALL;
}

void facts_say(const char *question, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("%s: %s: ", section, question);
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
}

const char *facts_code(cu_result result)
{
	const char *name = NULL;

	if (result == FACTS_NO_CALL)
		return "(no such call)";
	if (cu.cuGetErrorName(result, &name) != CU_OK || !name)
		return "(a code without a name)";
	return strncmp(name, "CUDA_ERROR_", 11) ? name : name + 11;
}

cu_result facts_ask(const char *question, cu_result result)
{
	facts_say(question, "%s", facts_code(result));
	return result;
}

void facts_must(const char *what, cu_result result)
{
	if (result == CU_OK)
		return;
	facts_say("GIVEN UP", "%s answered %s", what, facts_code(result));
	exit(1);
}

bool facts_simulated(void)
{
	char name[128] = "";

	facts_must("cuDeviceGetName", cu.cuDeviceGetName(name, sizeof(name), facts_device));
	return strstr(name, "simulated");
}

double facts_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void facts_start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		facts_say("GIVEN UP", "%s", dlerror());
		exit(1);
	}
#define FIND(name) \
	cu.name = (cu_##name##_call *)dlsym(library, #name); \
	if (!cu.name) \
		cu.name = (cu_##name##_call *)(void (*)(void))no_call;
#define F(since, version, name, params) FIND(name)
#define N(name, params) FIND(name)
	CUDA_ABI_CALLS(F)
	FACTS_CALLS(N)
#undef F
#undef N
	facts_must("cuInit", cu.cuInit(0));
	facts_must("cuDeviceGet", cu.cuDeviceGet(&facts_device, 0));
	facts_must("cuDevicePrimaryCtxRetain",
		   cu.cuDevicePrimaryCtxRetain(&facts_context, facts_device));
	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(facts_context));
}

void facts_send(int to, const void *data, size_t size)
{
	if (write(to, data, size) != (ssize_t)size) {
		facts_say("GIVEN UP", "the peer does not listen");
		exit(1);
	}
}

bool facts_receive(int from, void *data, size_t size)
{
	return read(from, data, size) == (ssize_t)size;
}

void facts_peer_start(struct facts_peer *peer, void (*run)(int from, int to))
{
	int there[2], back[2];

	if (pipe(there) || pipe(back)) {
		facts_say("GIVEN UP", "no pipe");
		exit(1);
	}
	fflush(stdout);
	peer->pid = fork();
	if (!peer->pid) {
		close(there[1]);
		close(back[0]);
		run(there[0], back[1]);
		exit(0);
	}
	close(there[0]);
	close(back[1]);
	peer->to = there[1];
	peer->from = back[0];
}

void facts_peer_end(struct facts_peer *peer)
{
	close(peer->to);
	close(peer->from);
	waitpid(peer->pid, NULL, 0);
}

cu_mem_prop facts_prop(int handle_types)
{
	return (cu_mem_prop){.type = CU_ALLOCATION_PINNED,
			     .requestedHandleTypes = handle_types,
			     .location = {CU_LOCATION_DEVICE, facts_device}};
}

cu_deviceptr facts_map(cu_mem_handle handle, size_t size)
{
	cu_mem_access access = {{CU_LOCATION_DEVICE, facts_device}, CU_ACCESS_READ_WRITE};
	cu_deviceptr at = 0;

	facts_must("cuMemAddressReserve", cu.cuMemAddressReserve(&at, size, 0, 0, 0));
	facts_must("cuMemMap", cu.cuMemMap(at, size, 0, handle, 0));
	facts_must("cuMemSetAccess", cu.cuMemSetAccess(at, size, &access, 1));
	return at;
}

/* In a group of its own: its peer ends with it. */
static int run_section(const char *program, const char *name)
{
	int status = 0, waited_ms = 0, pid = fork();

	if (!pid) {
		setpgid(0, 0);
		execl(program, program, name, (char *)NULL);
		_exit(127);
	}
	setpgid(pid, pid);
	while (!waitpid(pid, &status, WNOHANG) && waited_ms < SECTION_SECONDS * 1000) {
		usleep(10000);
		waited_ms += 10;
	}
	kill(-pid, SIGKILL);
	if (waited_ms >= SECTION_SECONDS * 1000) {
		waitpid(pid, &status, 0);
		printf("%s: GIVEN UP: still running after %d s\n", name, SECTION_SECONDS);
	} else if (WIFSIGNALED(status)) {
		printf("%s: GIVEN UP: killed by signal %d\n", name, WTERMSIG(status));
	}
	fflush(stdout);
	return status != 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < SECTION_COUNT; i++) {
		if (argc < 2) {
			failed |= run_section("/proc/self/exe", sections[i].name);
		} else if (!strcmp(argv[1], sections[i].name)) {
			section = sections[i].name;
			sections[i].ask();
			return 0;
		}
	}
	return argc < 2 ? failed : 2;
}
