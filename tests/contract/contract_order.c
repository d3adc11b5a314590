/* SPDX-License-Identifier: MIT */
/*
 * Words in shared memory that streams of two processes write and wait for, host functions, and both
 * in graphs. shim/api/api_order_stream.c relies on this behaviour.
 */
#include "contract.h"

#define PAGE 16384
#define GONE (UINT64_C(1) << 62)

typedef struct graph_exec_opaque *graph_exec;

static const struct driver *driver;
static _Atomic uint64_t *words; /* in a memfd that both processes map */
static cu_deviceptr at;		/* their address for the GPU */

static void need_words(void)
{
	cu_device device;
	int has = 0;

	if (!driver->cuStreamWriteValue64_v2 || !driver->cuStreamWaitValue64_v2)
		contract_skip("this driver has no 64-bit stream memory operations");
	EXPECT(CU_OK, driver->cuCtxGetDevice(&device));
	EXPECT(CU_OK, driver->cuDeviceGetAttribute(&has, CU_DEVICE_STREAM_WORDS, device));
	if (!has)
		contract_skip("this GPU has no 64-bit stream memory operations");
}

static void map_words(int fd)
{
	words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(words != MAP_FAILED);
}

static void register_words(void)
{
	EXPECT(CU_OK,
	       driver->cuMemHostRegister_v2((void *)words, PAGE,
					    CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED));
	EXPECT(CU_OK, driver->cuMemHostGetDevicePointer_v2(&at, (void *)words, 0));
}

static cu_stream set_up(int fd)
{
	driver = contract_context(0);
	need_words();
	if (fd < 0) {
		fd = memfd_create("contract", MFD_CLOEXEC);
		CHECK(fd >= 0 && !ftruncate(fd, PAGE));
	}
	map_words(fd);
	register_words();
	return contract_stream();
}

static cu_result wait_for(cu_stream stream, size_t word, uint64_t value)
{
	return driver->cuStreamWaitValue64_v2(stream, at + word * 8, value, CU_WAIT_GEQ);
}

static cu_result write_to(cu_stream stream, size_t word, uint64_t value)
{
	return driver->cuStreamWriteValue64_v2(stream, at + word * 8, value, 0);
}

/* CU_WAIT_GEQ compares by the sign of the difference: adding 2^62 releases every waiter. */
static void geq_is_cyclic(int peer)
{
	cu_stream stream = set_up(-1);

	atomic_store(&words[0], 7);
	EXPECT(CU_OK, wait_for(stream, 0, 7));
	EXPECT(CU_OK, wait_for(stream, 0, 6));
	EXPECT(CU_OK, write_to(stream, 1, 1));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[1]) == 1);
	EXPECT(CU_OK, wait_for(stream, 0, 8));
	EXPECT(CU_OK, write_to(stream, 1, 2));
	usleep(20000);
	CHECK(atomic_load(&words[1]) == 1);
	atomic_store(&words[0], 7 + GONE);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[1]) == 2);
	atomic_store(&words[0], UINT64_MAX - 1); /* the comparison wraps around */
	EXPECT(CU_OK, wait_for(stream, 0, UINT64_MAX - 1));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
}

/* Work after a wait runs after it. Data written before a word is visible before the word. */
static void work_stays_in_order(int peer)
{
	cu_stream stream = set_up(-1);
	cu_deviceptr memory = contract_filled(CONTRACT_BLOCK, 1);
	unsigned char *bytes = memset(contract_pinned(CONTRACT_BLOCK), 9, CONTRACT_BLOCK);

	EXPECT(CU_OK, wait_for(stream, 0, 1));
	EXPECT(CU_OK, driver->cuMemcpyHtoDAsync_v2(memory, bytes, CONTRACT_BLOCK, stream));
	EXPECT(CU_OK, write_to(stream, 1, 1));
	EXPECT(CU_OK, driver->cuMemcpyDtoHAsync_v2(bytes, memory, CONTRACT_BLOCK, stream));
	memset(bytes, 3, CONTRACT_BLOCK); /* pinned: the copy reads it when it runs */
	usleep(20000);
	/* Check the word, not the memory: on a GPU, a copy from it might queue behind these. */
	CHECK(atomic_load(&words[1]) == 0);
	atomic_store(&words[0], 1);
	while (!atomic_load(&words[1]))
		usleep(100);
	CHECK(contract_holds(memory, CONTRACT_BLOCK, 3));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(bytes[0] == 3 && bytes[CONTRACT_BLOCK - 1] == 3);
}

static void ping(int peer)
{
	int fd = memfd_create("contract", MFD_CLOEXEC);
	cu_stream stream;

	CHECK(fd >= 0 && !ftruncate(fd, PAGE));
	contract_send_fd(peer, fd);
	stream = set_up(fd);
	for (uint64_t turn = 1; turn <= 200; turn++) {
		EXPECT(CU_OK, write_to(stream, 0, turn));
		EXPECT(CU_OK, wait_for(stream, 8, turn));
	}
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[8]) == 200);
	contract_hear(peer);
}

static void pong(int peer)
{
	cu_stream stream = set_up(contract_receive_fd(peer));

	for (uint64_t turn = 1; turn <= 200; turn++) {
		EXPECT(CU_OK, wait_for(stream, 0, turn));
		EXPECT(CU_OK, write_to(stream, 8, turn));
	}
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[0]) == 200);
	contract_tell(peer);
}

static void count(void *user)
{
	atomic_fetch_add((_Atomic uint64_t *)user, 1);
}

static void host_functions_come_in_turn(int peer)
{
	cu_stream stream = set_up(-1);

	EXPECT(CU_OK, wait_for(stream, 0, 1));
	EXPECT(CU_OK, driver->cuLaunchHostFunc(stream, count, (void *)&words[1]));
	EXPECT(CU_OK, wait_for(stream, 1, 1));
	EXPECT(CU_OK, write_to(stream, 2, 5));
	usleep(20000);
	CHECK(!atomic_load(&words[1]) && !atomic_load(&words[2]));
	atomic_store(&words[0], 1);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[1]) == 1 && atomic_load(&words[2]) == 5);
	EXPECT(CU_INVALID_VALUE, driver->cuLaunchHostFunc(stream, NULL, NULL));
}

static void they_are_captured(int peer)
{
	cu_result (*instantiate)(graph_exec *, cu_graph, unsigned long long) =
	    contract_symbol("cuGraphInstantiateWithFlags");
	cu_result (*launch)(graph_exec, cu_stream) = contract_symbol("cuGraphLaunch");
	cu_result (*destroy)(graph_exec) = contract_symbol("cuGraphExecDestroy");
	cu_stream stream = set_up(-1);
	graph_exec exec = NULL;
	cu_graph graph = NULL;

	if (!instantiate || !launch || !destroy)
		contract_skip("this driver has no cuGraphInstantiateWithFlags");
	EXPECT(CU_OK, driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL));
	EXPECT(CU_OK, wait_for(stream, 0, 1));
	EXPECT(CU_OK, driver->cuLaunchHostFunc(stream, count, (void *)&words[1]));
	EXPECT(CU_OK, write_to(stream, 2, 3));
	EXPECT(CU_OK, driver->cuStreamEndCapture(stream, &graph));
	CHECK(!atomic_load(&words[1]) && !atomic_load(&words[2]));
	EXPECT(CU_OK, instantiate(&exec, graph, 0));
	EXPECT(CU_OK, launch(exec, stream));
	usleep(20000);
	CHECK(!atomic_load(&words[1]) && !atomic_load(&words[2]));
	atomic_store(&words[0], 1);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[1]) == 1 && atomic_load(&words[2]) == 3);
	EXPECT(CU_OK, launch(exec, stream));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(atomic_load(&words[1]) == 2);
	EXPECT(CU_OK, destroy(exec));
	EXPECT(CU_OK, driver->cuGraphDestroy(graph));
}

/* While another stream is captured, a thread in relaxed mode may register memory. */
static void memory_is_registered_beside_a_capture(int peer)
{
	cu_stream stream = set_up(-1);
	cu_capture_mode mode = CU_CAPTURE_RELAXED;
	void *more = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cu_graph graph = NULL;

	EXPECT(CU_OK, driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL));
	EXPECT(CU_OK, driver->cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT(CU_OK, driver->cuMemHostRegister_v2(
			  more, PAGE, CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED));
	EXPECT(CU_OK, driver->cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT(CU_OK, driver->cuStreamEndCapture(stream, &graph));
	CHECK(graph != NULL);
	EXPECT(CU_OK, driver->cuMemHostUnregister(more));
}

static void streams_have_numbers(int peer)
{
	cu_stream stream = set_up(-1), other;
	unsigned long long first = 0, again = 0, second = 0, own = 0;

	if (!driver->cuStreamGetId)
		contract_skip("this driver has no cuStreamGetId");
	other = contract_stream();
	EXPECT(CU_OK, driver->cuStreamGetId(stream, &first));
	EXPECT(CU_OK, driver->cuStreamGetId(stream, &again));
	EXPECT(CU_OK, driver->cuStreamGetId(other, &second));
	EXPECT(CU_OK, driver->cuStreamGetId(NULL, &own));
	CHECK(first == again && first != second && own != first && own != second);
	EXPECT(CU_OK, driver->cuStreamDestroy_v2(other));
	other = contract_stream();
	EXPECT(CU_OK, driver->cuStreamGetId(other, &again));
	CHECK(again != first && again != second);
}

UNIT_MAIN(ALONE(geq_is_cyclic, geq_is_cyclic), ALONE(work_stays_in_order, work_stays_in_order),
	  PAIR(streams_of_two_processes_take_turns, ping, pong),
	  ALONE(host_functions_come_in_turn, host_functions_come_in_turn),
	  ALONE(they_are_captured, they_are_captured),
	  ALONE(memory_is_registered_beside_a_capture, memory_is_registered_beside_a_capture),
	  ALONE(streams_have_numbers, streams_have_numbers))
