/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_CONTRACT_CONTRACT_H
#define GPUSHARE_TESTS_CONTRACT_CONTRACT_H
/*
 * What the contract tests share. The test program itself never touches CUDA, which does not survive
 * a fork: each case runs in one or two fresh processes. A check that fails there says so on stderr
 * and ends its process, and the case has failed.
 */
#include "unit.h"

#include "cuda/driver.h"

#define CONTRACT_BLOCK ((size_t)2 << 20) /* what the driver maps at once */

/* One process of a case; `peer` is its end of a socketpair to the other (-1: there is none). */
typedef void contract_role(int peer);

struct contract_case {
	contract_role *owner, *importer; /* importer NULL: the owner is alone */
	bool owner_is_killed;		 /* SIGKILL is how the owner means to end */
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

/* In a role: */
#define EXPECT(result, call) contract_expect(__FILE__, __LINE__, #call, result, call)
#define CHECK(condition) contract_check(__FILE__, __LINE__, #condition, condition)
void contract_expect(const char *file, int line, const char *call, cu_result expected,
		     cu_result result);
void contract_check(const char *file, int line, const char *condition, bool holds);
_Noreturn void contract_skip(const char *why);
/* Leave these namespaces (CLONE_NEW...) and that of mounts, for an empty /dev/shm. Skips the case
 * where that is refused, as in a container or a chroot. */
void contract_leave_namespaces(int which);

/* gpu.c: the driver that the loader finds; loaded, initialised, with a context. */
const struct driver *contract_load(void);
void *contract_symbol(const char *name);
const struct driver *contract_initialise(void);
const struct driver *contract_context(int device);
bool contract_is_simulated(void);
void contract_need_devices(int count);
cu_deviceptr contract_filled(size_t size, unsigned char value);
void contract_fill(cu_deviceptr pointer, size_t size, unsigned char value);
bool contract_holds(cu_deviceptr pointer, size_t size, unsigned char value);
/* An event of its own behind what the stream has. */
cu_event contract_recorded(const struct driver *driver, cu_stream stream);
cu_mem_prop contract_vmm_prop(void);
cu_deviceptr contract_vmm_map(cu_mem_handle handle, size_t size, cu_deviceptr want, int access);

/* Between the two processes; contract_tell and _hear are a message without content. */
void contract_send(int peer, const void *data, size_t size);
void contract_receive(int peer, void *data, size_t size);
void contract_tell(int peer);
void contract_hear(int peer);
void contract_send_fd(int peer, int fd);
int contract_receive_fd(int peer);
/* In the importer: until the owner has ended and the kernel has taken back all it had. */
void contract_await_owner_end(void);
/* Run `role` in a child, for what only a child can do; its failure is the caller's. */
void contract_in_child(contract_role *role, int peer);

#endif
