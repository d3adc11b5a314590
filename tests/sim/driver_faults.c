/* SPDX-License-Identifier: MIT */
/*
 * Entry and exit of every call: injected faults (GPUSHARE_SIM_FAIL=call:nth:count[:result],...),
 * calls that the driver pretends not to have (GPUSHARE_SIM_LACKS=call,...), a log of allocator and
 * IPC calls (GPUSHARE_SIM_LOG=file), and the checks that precede those of a call's arguments.
 */

#include "base/cleanup.h"
#include "driver_stream.h"

struct fault {
	unsigned int nth, count; /* count 0: no fault */
	int result;
	atomic_uint seen;
};

static struct fault faults[CALL_COUNT];
static const char *faults_log;
static const char *faults_lacking;

static const char *const faults_names[CALL_COUNT] = {
#define F(since, version, name, params) [CALL_##name] = #name,
    SIM_CALLS(F)
#undef F
};

/* "cuMemAlloc" also matches cuMemAlloc_v2, and "cuMemAllocAsync" matches its twin: a test means all
 * versions of a call. */
static bool faults_same(const char *text, size_t length, const char *name)
{
	if (strncmp(text, name, length) != 0)
		return false;
	const char *rest = name + length;
	if (strncmp(rest, "_v", 2) == 0)
		rest += 2 + strspn(rest + 2, "0123456789");
	return !*rest || strcmp(rest, "_ptsz") == 0;
}

static bool faults_parse_one(const char *text, size_t length)
{
	char name[64], end;
	struct fault fault = {.result = CU_UNKNOWN};
	bool found = false;
	char spec[128];

	if (length >= sizeof(spec))
		return false;
	memcpy(spec, text, length);
	spec[length] = '\0';
	int fields = sscanf(spec, "%63[A-Za-z0-9_]:%u:%u:%d%c", name, &fault.nth, &fault.count,
			    &fault.result, &end);
	if ((fields != 4 && (fields != 3 || spec[length - 1] == ':')) || !fault.nth || !fault.count)
		return false;
	if (fields == 3 &&
	    strspn(strrchr(spec, ':') + 1, "0123456789") != strlen(strrchr(spec, ':') + 1))
		return false;
	for (int i = 0; i < CALL_COUNT; i++) {
		if (!faults_same(name, strlen(name), faults_names[i]))
			continue;
		faults[i].nth = fault.nth;
		faults[i].count = fault.count;
		faults[i].result = fault.result;
		found = true;
	}
	return found;
}

bool faults_parse(void)
{
	const char *text = getenv("GPUSHARE_SIM_FAIL");

	faults_log = getenv("GPUSHARE_SIM_LOG");
	if (faults_log && !*faults_log)
		faults_log = NULL;
	faults_lacking = getenv("GPUSHARE_SIM_LACKS");
	while (text && *text) {
		size_t length = strcspn(text, ",");
		/* the simulated libvulkan.so.1 reads entries of its own */
		if (strncmp(text, "vk", 2) != 0 && !faults_parse_one(text, length))
			return false;
		text += length + (text[length] == ',');
	}
	return true;
}

/* A symbol in the list is hidden. A bare name hides all its versions. */
bool faults_lacks(const char *symbol, size_t bare_length)
{
	const char *text = faults_lacking;

	while (text && *text) {
		size_t length = strcspn(text, ",");
		if (length == strlen(symbol) && strncmp(text, symbol, length) == 0)
			return true;
		if (length == bare_length && strncmp(text, symbol, length) == 0)
			return true;
		text += length + (text[length] == ',');
	}
	return false;
}

static cu_result faults_due(enum call call)
{
	struct fault *fault = &faults[call];

	if (!fault->count)
		return CU_OK;
	unsigned int seen = atomic_fetch_add(&fault->seen, 1) + 1;
	return seen >= fault->nth && seen - fault->nth < fault->count ? fault->result : CU_OK;
}

/* tests/faults/lib_fault.c defines this if it is preloaded: faults that depend on the caller. */
extern bool gpushare_sim_fails(const char *call, const void *caller) __attribute__((weak));

cu_result faults_enter(enum call call, enum need need, const void *caller)
{
	state_once();
	cu_result result = faults_due(call);
	if (result == CU_OK && gpushare_sim_fails && gpushare_sim_fails(faults_names[call], caller))
		result = CU_UNKNOWN;
	if (result != CU_OK)
		return result;
	if (need == NEED_NOTHING)
		return CU_OK;
	if (!state.initialised || state.forked)
		return CU_NOT_INITIALIZED;
	if (need == NEED_INIT)
		return CU_OK;
	result = need == NEED_NO_DEAD && !context_current() ? CU_OK : context_check();
	return result == CU_OK && need != NEED_CONTEXT ? capture_permits() : result;
}

/* Log one line per call, "pid call result pointer size". A single write keeps the lines of several
 * processes apart. */
cu_result faults_leave(enum call call, cu_result result, uint64_t pointer, uint64_t size)
{
	char line[160];

	if (!faults_log)
		return result;
	int saved = errno;
	int length = snprintf(line, sizeof(line), "%d %s %d 0x%llx %llu\n", (int)getpid(),
			      faults_names[call], (int)result, (unsigned long long)pointer,
			      (unsigned long long)size);
	_cleanup_close_ int fd =
	    open(faults_log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	/* If the log can't be written, its lines are missing. The call's result stays the same. */
	ssize_t written = fd >= 0 ? write(fd, line, (size_t)length) : 0;
	(void)written;
	errno = saved;
	return result;
}
