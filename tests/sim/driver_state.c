/* SPDX-License-Identifier: MIT */
/* State of the process: settings from the environment, cuInit, fork, and the only lock. */

#include "driver_sim.h"
#include "sim_machine.h"

struct state state = {.lock = PTHREAD_MUTEX_INITIALIZER};

int state_lock(void)
{
	int cancelling;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	pthread_mutex_lock(&state.lock);
	return cancelling;
}

void state_unlock(const int *cancelling)
{
	pthread_mutex_unlock(&state.lock);
	pthread_setcancelstate(*cancelling, NULL);
}

/* As with a real driver: if a process forks after cuInit, the child can't use CUDA. */
static void state_after_fork(void)
{
	if (state.initialised)
		state.forked = true;
	else
		pthread_mutex_init(&state.lock, NULL);
}

static bool state_parse_int(const char *name, int low, int high, int *value)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return true;
	long number = strtol(text, &end, 10);
	if (*end || number < low || number > high)
		return false;
	*value = (int)number;
	return true;
}

void state_uuid(int physical, cu_uuid *uuid)
{
	sim_uuid(physical, uuid->bytes);
}

/* Return true if `text`, a "GPU-xxxx..." entry of CUDA_VISIBLE_DEVICES, names this device. A prefix
 * of the UUID is enough. */
static bool state_uuid_matches(const char *text, size_t length, int physical)
{
	char full[SIM_UUID_TEXT];

	sim_uuid_text(physical, full);
	return length > 4 && length <= strlen(full) && strncmp(text, full, length) == 0;
}

static int state_visible(const char *text, size_t length, int machine)
{
	for (int i = 0; i < machine; i++) {
		if (state_uuid_matches(text, length, i))
			return i;
	}
	char *end;
	long number = strtol(text, &end, 10);
	if (end == text || end != text + length || number < 0 || number >= machine)
		return -1;
	return (int)number;
}

/* The real driver takes entries up to the first that names no device. */
static void state_select(int machine)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");

	if (!text) {
		for (int i = 0; i < machine; i++)
			state.physical[i] = i;
		state.device_count = machine;
		return;
	}
	while (*text && state.device_count < SIM_DEVICES_MAX) {
		size_t length = strcspn(text, ",");
		int physical = state_visible(text, length, machine);
		if (physical < 0 || state_ordinal(physical) >= 0)
			return;
		state.physical[state.device_count++] = physical;
		text += length + (text[length] == ',');
	}
}

static void state_start(void)
{
	const char *memory = getenv("GPUSHARE_SIM_MEMORY");
	int machine = 1;

	state.slot = -1;
	state.host_numa = 1;
	state.capacity = (uint64_t)4 << 30;
	state.peers = 1;
	state.stream_words = 1;
	state.copies = 1;
	state.settings_good =
	    (!memory || !*memory || sim_parse_size(memory, &state.capacity)) &&
	    state_parse_int("GPUSHARE_SIM_DEVICES", 0, SIM_DEVICES_MAX, &machine) &&
	    state_parse_int("GPUSHARE_SIM_HOST_NUMA", 0, 1, &state.host_numa) &&
	    state_parse_int("GPUSHARE_SIM_SLOT", 0, SIM_ADDRESS_SLOTS - 1, &state.slot) &&
	    state_parse_int("GPUSHARE_SIM_STREAM_WORDS", 0, 1, &state.stream_words) &&
	    state_parse_int("GPUSHARE_SIM_CONNECTIONS", 0, 32, &state.connections) &&
	    state_parse_int("GPUSHARE_SIM_PEERS", 0, 1, &state.peers) &&
	    state_parse_int("GPUSHARE_SIM_COPIES", 0, 1, &state.copies) &&
	    state_parse_int("GPUSHARE_SIM_POPULATE", 0, 1, &state.populate) && faults_parse();
	state_select(machine);
	pthread_atfork(NULL, NULL, state_after_fork);
}

void state_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, state_start);
}

bool state_device_good(cu_device device)
{
	return device >= 0 && device < state.device_count;
}

int state_ordinal(int physical)
{
	for (int i = 0; i < state.device_count; i++) {
		if (state.physical[i] == physical)
			return i;
	}
	return -1;
}

/* Return true if the visible device `device` can access memory of the machine's device
 * `physical`. */
bool state_reaches(cu_device device, int physical)
{
	return state.peers || state.physical[device] == physical;
}

/* Each libcuda maps a page at this address in cuInit. If a process loads a second libcuda, it finds
 * the page taken. */
#define STATE_MARK ((void *)(uintptr_t)UINT64_C(0x1ffff0000000))
#define STATE_MARK_SIZE 4096
static bool state_marked;			     /* under the lock */
extern void __tsan_init(void) __attribute__((weak)); /* TSan's shadow covers STATE_MARK */

/* Return false if another libcuda of this process was initialised first (see contract_lookup). If
 * the page can't be mapped, return true: then a second libcuda is not detected. Older emulators
 * treat MAP_FIXED_NOREPLACE as a hint, so check the address. */
static bool state_mark(void)
{
	STATE_LOCKED;
	int error = errno;
	void *mark;

	if (__tsan_init)
		return true;
	if (!state_marked && msync(STATE_MARK, STATE_MARK_SIZE, MS_ASYNC) == 0)
		return false;
	if (!state_marked) {
		mark =
		    mmap(STATE_MARK, STATE_MARK_SIZE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		state_marked = mark == STATE_MARK;
		if (mark != MAP_FAILED && !state_marked)
			munmap(mark, STATE_MARK_SIZE);
	}
	errno = error;
	return true;
}

__attribute__((destructor)) static void state_unmark(void)
{
	if (state_marked)
		munmap(STATE_MARK, STATE_MARK_SIZE);
}

/* Refuse cuInit if a setting does not parse: a mistyped fault must not pass as "no fault". */
static cu_result state_init(unsigned int flags)
{
	if (flags || !state.settings_good)
		return CU_INVALID_VALUE;
	if (!state.device_count)
		return CU_NO_DEVICE;
	if (!state_mark())
		return CU_OPERATING_SYSTEM;
	state.initialised = true;
	return CU_OK;
}

cu_result cuInit(unsigned int flags)
{
	ANSWER(cuInit, NEED_NOTHING, state.forked ? CU_NOT_INITIALIZED : state_init(flags));
}

CALL(cuDriverGetVersion, NEED_NOTHING, (int *version), (version))
{
	if (!version)
		return CU_INVALID_VALUE;
	*version = SIM_CUDA;
	return CU_OK;
}

static const char *state_error_name(cu_result error)
{
	switch ((int)error) {
#define V(ours, theirs, value) \
	case value: \
		return #theirs;
		CUDA_ABI_RESULTS(V)
#undef V
	default:
		return NULL;
	}
}

static cu_result state_error_text(cu_result error, const char **text)
{
	if (!text)
		return CU_INVALID_VALUE;
	*text = state_error_name(error);
	return *text ? CU_OK : CU_INVALID_VALUE;
}

cu_result cuGetErrorName(cu_result error, const char **text)
{
	ANSWER(cuGetErrorName, NEED_NOTHING, state_error_text(error, text));
}

/* The error's name without its prefix serves as its description. */
CALL(cuGetErrorString, NEED_NOTHING, (cu_result error, const char **text), (error, text))
{
	static const char prefix[] = "CUDA_ERROR_";
	cu_result result = state_error_text(error, text);

	if (result == CU_OK && strncmp(*text, prefix, sizeof(prefix) - 1) == 0)
		*text += sizeof(prefix) - 1;
	return result;
}
