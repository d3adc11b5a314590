/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_CONTRACT_CONTRACT_H
#define GPUSHARE_TESTS_CONTRACT_CONTRACT_H
/*
 * Helpers of the contract tests. The test program itself never calls CUDA, which does not survive a
 * fork: each case runs in one or two fresh processes. A failed check prints to stderr and ends its
 * process; the case then fails.
 */
#include "unit.h"

#include "cuda/driver.h"

#define CONTRACT_BLOCK ((size_t)2 << 20) /* the driver maps memory in this unit */

/*
 * One process of a case. `peer` is its end of a socketpair to the other process, or -1 without one.
 */
typedef void contract_role(int peer);

struct contract_case {
	contract_role *owner, *importer; /* importer NULL: the owner runs alone */
	bool owner_is_killed;		 /* the owner ends itself with SIGKILL */
};

/* Entries for cmocka's list of tests. */
#define ALONE(name, role) CONTRACT_TEST(name, .owner = role)
#define PAIR(name, its_owner, its_importer) \
	CONTRACT_TEST(name, .owner = its_owner, .importer = its_importer)
#define CONTRACT_TEST(name, ...) \
	{ \
#name, contract_run, NULL, NULL, &(struct contract_case) \
		{ \
			__VA_ARGS__ \
		} \
	}
void contract_run(void **state);

/* For use inside a role: */
#define EXPECT(result, call) contract_expect(__FILE__, __LINE__, #call, result, call)
#define CHECK(condition) contract_check(__FILE__, __LINE__, #condition, condition)
void contract_expect(const char *file, int line, const char *call, cu_result expected,
		     cu_result result);
void contract_check(const char *file, int line, const char *condition, bool holds);
_Noreturn void contract_skip(const char *why);
/*
 * Leave the namespaces `which` (CLONE_NEW...) and the mount namespace, and mount an empty /dev/shm.
 * Skip the case if the kernel refuses, as in a container or a chroot.
 */
void contract_leave_namespaces(int which);

/*
 * gpu.c: the libcuda.so.1 that the loader finds. The calls load it, initialise it, and give it a
 * current context.
 */
const struct driver *contract_load(void);
void *contract_symbol(const char *name);
const struct driver *contract_initialise(void);
const struct driver *contract_context(int device);
bool contract_is_simulated(void);
void contract_need_devices(int count);
cu_deviceptr contract_filled(size_t size, unsigned char value);
void contract_fill(cu_deviceptr pointer, size_t size, unsigned char value);
bool contract_holds(cu_deviceptr pointer, size_t size, unsigned char value);
/* Return a new stream that doesn't synchronize with the legacy default stream. */
cu_stream contract_stream(void);
/* Block the stream until 1 is stored in the returned word, which lies in pinned memory. */
atomic_uint *contract_hold_up(cu_stream stream);
/* Release the stream later. contract_was_released(): the call before waited for that. */
void contract_release_later(atomic_uint *word);
void contract_was_released(void);
void *contract_pinned(size_t size);
/* Return a new event, recorded after the present work of `stream`. */
cu_event contract_recorded(const struct driver *driver, cu_stream stream);
/* A role: fill three blocks of cuMemAlloc memory with 1, send their IPC handle, and wait. */
void contract_shares(int peer);
cu_mem_prop contract_vmm_prop(void);
cu_deviceptr contract_vmm_map(cu_mem_handle handle, size_t size, cu_deviceptr want, int access);

/* Messages between the two processes. contract_tell() and contract_hear() carry no content. */
void contract_send(int peer, const void *data, size_t size);
void contract_receive(int peer, void *data, size_t size);
void contract_tell(int peer);
void contract_hear(int peer);
void contract_send_fd(int peer, int fd);
int contract_receive_fd(int peer);
/* For the importer: wait until the owner has ended and the kernel has released its resources. */
void contract_await_owner_end(void);
/* Run `role` in a child process. If the child fails, the caller fails. */
void contract_in_child(contract_role *role, int peer);

#endif
