/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINK_H
#define GPUSHARE_SHIM_LINK_H
/* The shim's requests to the registry. They use one connection (shim_line.h), which is made when a
 * rule first matches. The program's threads share it; a forked child closes it. No call here takes
 * longer than its deadline, even if it waits for another thread's turn. */
#include "core/buffer/deferred.h"
#include "protocol.h"

/* The functions that return int return a status; on failure they write a sentence to `why`.
 * *out_reading is resync_readings() at the time of the registry's answer. */

/* Memory to share: the parts of a record that describe it. A whole record would take a kilobyte of
 * stack. */
struct memory {
	const char *name;
	const char *group;				/* "": for none */
	uint64_t address, size, base_offset, base_size; /* base: the whole allocation */
	uint32_t backing, flags, ttl_s, mode;
	uint8_t device_uuid[GPUSHARE_UUID_SIZE];
	int fd;		       /* the caller keeps it open and closes it; -1: none */
	const uint8_t *handle; /* used if fd is -1; NULL: none */
	uint64_t again;	       /* generation to restore; 0: a new one */
	bool orphan;	       /* the sender is an attacher, not the owner */
};
/* Share memory under a name. E_NOT_READY: the request was sent, but not answered in time, so the
 * registry may have the name. The next resync does not report this name, and the registry then
 * removes it. */
int link_share(const struct memory *what, int64_t until_ms, uint64_t *out_generation,
	       unsigned int *out_reading, char *why, size_t why_size);
/* Look `name` up, so that a pending resync runs first. After that resync, a buffer whose share was
 * not answered has either a generation or no name. */
void link_settle(const char *name);
/* Become the owner of the buffer that outlived its owner (keep) and has the name, size, GPU and
 * backing of `what`. E_NOT_FOUND: there is none. The caller closes *out_fd, which is
 * close-on-exec. */
int link_adopt(const struct memory *what, record *out_record, int *out_fd,
	       unsigned int *out_reading, char *why, size_t why_size);
/* The registry's answer to an attach. */
struct link_found {
	record what;
	uint8_t handle[GPUSHARE_HANDLE_SIZE];
	int fd;	  /* close-on-exec, the caller closes it; -1: none */
	bool own; /* this process owns it */
	bool read_only;
	unsigned int reading; /* resync_readings() at the time of the answer */
};
/* Attach a buffer. */
int link_attach(const char *name, bool read_only, struct link_found *out, char *why,
		size_t why_size);
/* Call it after link_attach() has returned `status`: wait until `until_ms` for the name, or for a
 * registry. OK: attach again. Any other status is final. */
int link_await(const char *name, int status, int64_t until_ms, char *why, size_t why_size);
/* Find the whole name of the buffer with that generation, among the names that match `glob`. */
bool link_find(const char *glob, uint64_t generation, char out_name[GPUSHARE_NAME_MAX + 1]);
/* Withdraw a name. *deferred becomes true if other processes have the buffer attached, or if they
 * may, because the registry has not answered. The memory must then be held for them. `deferred` may
 * be NULL. */
int link_withdraw(const char *name, uint64_t generation, bool *deferred, char *why,
		  size_t why_size);
/* Two deferred_ask functions (deferred.h). link_deferred() asks the registry. It also returns
 * E_NOT_READY if the registry failed a moment ago: ask again soon. link_deferred_left() doesn't
 * wait for the registry, but reads its page of changes. If another registry runs, or if the page
 * was never requested, it connects and asks within 100 ms. */
int link_deferred(void *unused, uint64_t generations[DEFERRED_MAX], size_t *count);
int link_deferred_left(void *unused, uint64_t generations[DEFERRED_MAX], size_t *count);
/* The next two functions don't wait for the registry, with one exception: if another registry runs,
 * or if the registry needs a resync, link_detach_later() connects and waits for the answer. It
 * returns false if the registry can't be told now. */
void link_withdraw_later(const char *name, uint64_t generation);
bool link_detach_later(const char *name, uint64_t generation, unsigned int reading);
/* End one attachment. `reading` is resync_readings() from the time when the entry left all
 * lists. */
int link_detach(const char *name, uint64_t generation, unsigned int reading, char *why,
		size_t why_size);

#endif
