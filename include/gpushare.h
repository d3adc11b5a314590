/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_H
#define GPUSHARE_H
/*
 * gpushare: GPU buffers with names, across processes, without a copy.
 *
 * A call that can fail returns GPUSHARE_OK or a negative enum gpushare_status, and sets its out_
 * arguments only on success. gpushare_explain() explains this thread's last failure: what failed,
 * why, and what to do. Calls are safe from any thread and need no current CUDA context; the current
 * context is the same afterwards. After fork() a child must open a session of its own: calls on an
 * inherited session return GPUSHARE_E_FORKED. A call is completed even if its thread is cancelled,
 * except for gpushare_watch_next() and gpushare_event_wait_host(), which can be cancelled while
 * they wait. A call's time limit includes its wait for other threads of the session.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSHARE_VERSION_MAJOR 0
#define GPUSHARE_VERSION_MINOR 1
#define GPUSHARE_VERSION_PATCH 0
#define GPUSHARE_VERSION "0.1.0"

#define GPUSHARE_NAME_MAX 255	/* bytes of a name, without the final NUL */
#define GPUSHARE_UUID_SIZE 16	/* bytes of a GPU UUID */
#define GPUSHARE_COMMAND_MAX 63 /* the owner's command name is cut to this many bytes */
#define GPUSHARE_TAGS_MAX 4	/* tags of a buffer */
#define GPUSHARE_TAG_KEY_MAX 31 /* bytes, without the final NUL */
#define GPUSHARE_TAG_VALUE_MAX 127
#define GPUSHARE_COUNTS_MAX 32 /* entries in each by_* array of gpushare_registry_info */

/* X(name, value, text) */
#define GPUSHARE_STATUSES(X) \
	X(OK, 0, "done") \
	X(E_INVALID, -1, "invalid argument") \
	X(E_NAME, -2, "not a valid buffer name") \
	X(E_NOT_FOUND, -3, "no such buffer") \
	X(E_EXISTS, -4, "the name is taken") \
	X(E_DENIED, -5, "not permitted") \
	X(E_TIMED_OUT, -6, "timed out") \
	X(E_NO_REGISTRY, -7, "the registry can't be reached") \
	X(E_PROTOCOL, -8, "the registry's answer makes no sense") \
	X(E_LIMIT, -9, "a limit is reached") \
	X(E_RANGE, -10, "offset or length past the end of the buffer") \
	X(E_NO_MEMORY, -11, "out of memory") \
	X(E_NO_DRIVER, -12, "no usable CUDA driver") \
	X(E_DEVICE, -13, "the buffer's GPU can't be reached from here") \
	X(E_CUDA, -14, "a CUDA call failed") \
	X(E_NOT_SUPPORTED, -15, "not supported") \
	X(E_NOT_SHAREABLE, -16, "this memory can't be shared") \
	X(E_OWNER_GONE, -17, "the owner is gone") \
	X(E_IO, -18, "reading or writing failed") \
	X(E_FORKED, -19, "the session belongs to the parent process") \
	X(E_CANCELLED, -20, "cancelled by the caller") \
	X(E_READ_ONLY, -21, "the buffer is read-only here") \
	X(E_ADDRESS_TAKEN, -22, "the owner's address is taken here") \
	X(E_NOT_READY, -23, "not done yet")

enum gpushare_status {
#define X(name, value, text) GPUSHARE_##name = value,
	GPUSHARE_STATUSES(X)
#undef X
};

/* X(name, value, text): what the memory is, and how other processes get it */
#define GPUSHARE_BACKINGS(X) \
	X(IPC, 1, "ipc")     /* cudaMalloc memory, by its CUDA IPC handle */ \
	X(VMM, 2, "vmm")     /* cuMemCreate memory, by an exported file descriptor */ \
	X(HOST, 3, "host")   /* host memory at one address for CPU and GPU, by a descriptor */ \
	X(EVENT, 4, "event") /* a named event without memory, by its CUDA IPC handle */

enum gpushare_backing {
#define X(name, value, text) GPUSHARE_BACKING_##name = value,
	GPUSHARE_BACKINGS(X)
#undef X
};

/* X(name, value, text): how a buffer is made */
#define GPUSHARE_FLAGS(X) \
	X(KEEP, 1, "keep")	   /* stays after its owner frees it, exits or is killed */ \
	X(READONLY, 2, "readonly") /* other processes map it for reading only */ \
	X(VMM, 4, "vmm")	   /* cuMemCreate memory; KEEP and READONLY imply it */ \
	X(UNIFIED, 8, "unified")   /* host memory, at one address for CPU and GPU */ \
	X(STAGED, 16, "staged")	   /* no other process sees the name before gpushare_commit() */

enum gpushare_flag {
#define X(name, value, text) GPUSHARE_FLAG_##name = value,
	GPUSHARE_FLAGS(X)
#undef X
};

/* X(name, value, text): what became of an attached buffer's name */
#define GPUSHARE_STATES(X) \
	X(SHARED, 1, "shared")	     /* its owner shares it under its name */ \
	X(KEPT, 2, "kept")	     /* its owner ended or freed it, and it is kept (KEEP) */ \
	X(WITHDRAWN, 3, "withdrawn") /* the name is gone; the memory stays until you detach */ \
	X(REPLACED, 4, "replaced")   /* another buffer has the name; the memory stays as well */

enum gpushare_state {
#define X(name, value, text) GPUSHARE_STATE_##name = value,
	GPUSHARE_STATES(X)
#undef X
};

/* X(name, value, text): what the CPU may do with the memory */
#define GPUSHARE_ACCESSES(X) X(READ, 1, "read") X(WRITE, 2, "write")

enum gpushare_access {
#define X(name, value, text) GPUSHARE_##name = value,
	GPUSHARE_ACCESSES(X)
#undef X
};

/* X(name, value, text): how the CPU caches mapped memory */
#define GPUSHARE_CACHINGS(X) \
	X(WRITE_COMBINED, 1, "write-combined") /* sequential stores are fast, loads are slow */ \
	X(CACHED, 2, "cached")

enum gpushare_caching {
#define X(name, value, text) GPUSHARE_##name = value,
	GPUSHARE_CACHINGS(X)
#undef X
};

/*
 * X(name, value, text): kinds of notices. A notice has the buffer's record as it is after the event
 * or, if the buffer is gone, its last record. LOST and RESTART have none.
 */
#define GPUSHARE_NOTICES(X) \
	X(SHARE, 1, "share")	   /* the buffer is new or adopted, or its owner is back */ \
	X(ATTACH, 2, "attach")	   /* a process attached it, for the first time or again */ \
	X(DETACH, 3, "detach")	   /* an attacher detached it, or ended */ \
	X(PUBLISH, 4, "publish")   /* at most once a second: the latest sequence, and the rate */ \
	X(WITHDRAW, 5, "withdraw") /* its owner withdraws the name and frees the buffer */ \
	X(UNLINK, 6, "unlink")	   /* its name was unlinked */ \
	X(DEFERRED, 7, "deferred") /* its owner freed it, and holds it for attachers */ \
	X(OWNER_GONE, 8, "owner-gone") /* its owner ended or, if it has KEEP, freed it */ \
	X(EXPIRE, 9, "expire")	       /* it was kept, and its ttl_s is over */ \
	X(REMOVE, 10, "remove") /* a buffer without name or owner ended: replaced, lost, freed */ \
	X(LOST, 100, "lost")	/* notices were missed: see gpushare_notice.lost */ \
	X(RESTART, 101, "restart") /* another registry runs now: list all buffers again */

enum gpushare_notice_kind {
#define X(name, value, text) GPUSHARE_NOTICE_##name = value,
	GPUSHARE_NOTICES(X)
#undef X
};

/* X(name, value, text): how publications of a buffer are written and waited for */
#define GPUSHARE_ORDERINGS(X) \
	X(NONE, 0, "none") /* nothing was published or waited for yet */ \
	X(HOST, 1, "host") /* only by loads and stores of the CPU */ \
	X(HOST_FUNCTION, 2, \
	  "host-functions") /* by host functions, for lack of 64-bit stream memory operations */ \
	X(STREAM, 3, "stream-memory-operations")

enum gpushare_ordering {
#define X(name, value, text) GPUSHARE_ORDERING_##name = value,
	GPUSHARE_ORDERINGS(X)
#undef X
};

struct gpushare_session; /* a connection to the registry; its names and attachments end with it */
struct gpushare_buffer;	 /* a named buffer, mapped into this process */
struct gpushare_map;	 /* a buffer's memory, mapped for the CPU */
struct gpushare_mirror;	 /* a pinned host copy of a part of a buffer */
struct gpushare_event;	 /* a named event: one process records it, others wait for it */
struct gpushare_watch;	 /* a connection that reports what happens to buffers */

/** struct gpushare_open_options - zero in a field means its default; NULL: all defaults */
struct gpushare_open_options {
	const char *directory;	 /* of the registry; the default: see gpushare(7) */
	unsigned int timeout_ms; /* for each registry call; default $GPUSHARE_TIMEOUT_MS or 1000 */
	int no_autostart;	 /* if no registry runs, fail instead of starting one */
};

struct gpushare_attach_options {
	unsigned int wait_ms;	 /* how long to wait for the name to appear; 0: don't */
	int same_address;	 /* map the buffer at its owner's address, or fail with
				  * GPUSHARE_E_ADDRESS_TAKEN: pointers that the owner stored in it
				  * are then valid here. Only for vmm and unified buffers. An
				  * adopted buffer's address is that of its creation */
	int prefer_same_address; /* the same, but if that address is taken, map it at another */
	int on_device; /* map it for `device`, by peer access if the buffer is on another GPU. If
		        * this is 0, map it for its own GPU or, if that is not visible here, for the
		        * current context's device, or device 0 without a context */
	int device;    /* with on_device: CUDA ordinal in this process; -1: the current context's
		        * device, or device 0 if there is no context */
	int passive;   /* gpushare_acquire() does not make this process a consumer, for which
		        * publishers wait: see gpushare_join() */
	int host_only; /* attach without CUDA, for gpushare_map(), gpushare_copy_to() and similar
		        * calls. gpushare_pointer() is 0, gpushare_device() -1. For vmm buffers, and
		        * unified ones that are memfds: see gpushare_alloc_with(). Not with
		        * same_address or on_device */
	int read_only; /* attach for reading only. The right to read suffices then: see
		        * gpushare_share_with(). 0: the right to write is needed, too */
};

/** struct gpushare_alloc_options - zero in a field, except device, means its default; NULL: all
 * defaults */
struct gpushare_alloc_options {
	int device;	/* CUDA ordinal in this process; -1, or NULL options: the current context's
			 * device, or device 0 without a context */
	uint32_t flags; /* of enum gpushare_flag; 0: none */
	uint32_t ttl_s; /* with KEEP: seconds that it stays without an owner; 0: until it is
			 * removed */
	int adopt;	/* with KEEP: take over a kept buffer of that name, size and GPU, if there
			 * is one */
	uint32_t mode;	/* mode and group: as in gpushare_share_options. If a buffer is adopted, 0
			 * and NULL leave its mode and group as they are */
	const char *group;
};

/** struct gpushare_share_options - zero in a field means its default; NULL: all defaults */
struct gpushare_share_options {
	uint32_t mode;	   /* permission bits as of a file, out of 0666; 0: 0600 */
	const char *group; /* name or number of the group that the middle digit of mode is for; the
			    * caller must be in it. NULL: the caller's own */
	int staged;	   /* as GPUSHARE_FLAG_STAGED: see gpushare_commit(); not for events */
};

/** struct gpushare_event_options - zero in a field means its default; NULL: all defaults */
struct gpushare_event_options {
	unsigned int wait_ms; /* how long to wait for the name to appear; 0: don't */
	int on_device; /* open it for `device`. If this is 0, open it for its owner's GPU or, if
		        * that is not visible here, for the current context's device, or device 0
		        * without a context */
	int device;    /* with on_device: CUDA ordinal in this process; -1: the current context's
		        * device, or device 0 if there is no context */
};

/** struct gpushare_map_options - zero in a field means its default; NULL: all defaults */
struct gpushare_map_options {
	int need_coherent; /* has no effect: every map is coherent */
};

/** struct gpushare_map_info - how a map was made, and how it must be used */
struct gpushare_map_info {
	const char *backend; /* "dma-buf", "vulkan" or "host"; a static string */
	enum gpushare_caching caching;
	int coherent;	  /* always 1 */
	size_t atom_size; /* always 1 */
};

/** struct gpushare_tag - a label of a buffer: "dtype", "f16" */
struct gpushare_tag {
	char key[GPUSHARE_TAG_KEY_MAX + 1];	/* 1 or more of [A-Za-z0-9._-] */
	char value[GPUSHARE_TAG_VALUE_MAX + 1]; /* no control characters */
};

/** struct gpushare_part - a part of a buffer, to be named by gpushare_share_parts() */
struct gpushare_part {
	const char *name; /* 1..GPUSHARE_NAME_MAX bytes of [A-Za-z0-9._/-], the first not '-' */
	size_t offset;	  /* bytes into the buffer */
	size_t size;	  /* bytes, 1 or more, within the buffer */
	const struct gpushare_tag *tags;
	size_t tag_count; /* up to GPUSHARE_TAGS_MAX; 0: tags may be NULL */
};

/** struct gpushare_info - a buffer as the registry knows it; sizes and offsets in bytes */
struct gpushare_info {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;  /* identifies the buffer together with the name; never used again */
	uint64_t size;	      /* as requested */
	uint64_t base_offset; /* of the buffer in its allocation */
	uint64_t base_size;   /* of that allocation: the memory that is really used */
	unsigned char device_uuid[GPUSHARE_UUID_SIZE];
	enum gpushare_backing backing;
	uint32_t owner_uid;
	int32_t owner_pid; /* as the registry's pid namespace numbers it; 0: not visible there */
	uint64_t owner_started; /* clock ticks after boot, field 22 of /proc/PID/stat */
	char owner_command[GPUSHARE_COMMAND_MAX + 1];
	uint32_t attachers; /* attachments now, without those of the owner's process */
	uint64_t created_unix_ns;
	uint32_t flags;	     /* of enum gpushare_flag: KEEP, READONLY */
	uint32_t ttl_s;	     /* with KEEP: seconds that it stays without an owner; 0: no end */
	uint32_t ttl_left_s; /* seconds left of ttl_s, once the owner has gone */
	int owner_alive;     /* 0: kept, and its owner (owner_*) has freed it or ended */
	int deferred;	     /* 1: its owner has freed it, and holds it for attachers */
	int missing;	     /* 1: its owner has not shared it again since the registry's restart */
	uint64_t sequence;   /* number of the latest publication: see gpushare_publish(); 0: none */
	enum gpushare_ordering ordering; /* how its publisher publishes */
	uint32_t mode;			 /* permissions: see gpushare_share_options */
	uint32_t owner_gid;		 /* 2^32 - 1: no group */
	int isolated; /* 1: attachers map nothing but this allocation. 0: it is a cudaMalloc
		       * allocation that is no multiple of 2 MiB; attachers map other memory in its
		       * last block */
	uint32_t tag_count;
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX];
};

/** struct gpushare_holder - a process that has a buffer attached, once for each of its
 * connections */
struct gpushare_holder {
	int32_t pid; /* as the registry's pid namespace numbers it; 0: not visible there */
	uint32_t uid;
	uint64_t started; /* clock ticks after boot, field 22 of /proc/PID/stat */
	char command[GPUSHARE_COMMAND_MAX + 1];
	uint32_t count; /* attachments */
	int own;	/* 1: the owner's own process, not counted in gpushare_info.attachers */
};

/** struct gpushare_count - one of the registry's counts; `what` says of what */
struct gpushare_count {
	char what[24];
	uint64_t count;
	uint64_t bytes; /* for counts of memory */
};

/** struct gpushare_registry_info - a registry's load, of all its clients together. If it serves
 * several users, only root and the registry's own user get all of it; other callers get counts of
 * what they may see, have or have asked for */
struct gpushare_registry_info {
	uint64_t names;
	uint64_t attachments;
	uint64_t connections;
	uint64_t waiters;  /* requests that wait for a name */
	uint64_t requests; /* since the registry was started */
	uint64_t deferred; /* buffers that their owners have freed and hold for attachers */
	uint64_t started_unix_ns;
	uint64_t deferred_bytes; /* of the deferred buffers */
	uint64_t kept_bytes;	 /* of all buffers with KEEP, whether their owners live or not */
	uint64_t kept_limit;	 /* bytes; --keep-limit of gpushare-registry, or user_kept_bytes */
	uint64_t descriptors;	 /* file descriptors that the registry holds for memory */
	uint64_t hidden;	 /* requests about buffers that the sender may not see */
	char version[32];	 /* of the registry; "": it is older than this field */
	int32_t pid;
	uint32_t lock_held_max_us; /* the longest time that one operation made others wait */
	/* Each array ends at the first entry with an empty `what` (examples in quotes). */
	struct gpushare_count by_verb[GPUSHARE_COUNTS_MAX];    /* requests answered: "attach" */
	struct gpushare_count by_status[GPUSHARE_COUNTS_MAX];  /* refusals: "E_NOT_FOUND" */
	struct gpushare_count by_backing[GPUSHARE_COUNTS_MAX]; /* names: "ipc", with their bytes */
	struct gpushare_count by_limit[GPUSHARE_COUNTS_MAX];   /* reached: "user_names" */
	struct gpushare_count by_drop[GPUSHARE_COUNTS_MAX];    /* connections closed: "silent" */
	struct gpushare_count by_audit[GPUSHARE_COUNTS_MAX];   /* audit lines: "written" */
};

/** struct gpushare_notice - one thing that happened */
struct gpushare_notice {
	enum gpushare_notice_kind kind;
	int32_t pid; /* of the process that caused it; 0: none, or not visible to the registry */
	uint64_t serial;	   /* counts all notices of one registry, whatever their names */
	uint64_t unix_ns;	   /* when */
	uint64_t lost;		   /* LOST: how many notices were missed, whatever their names */
	uint64_t published;	   /* PUBLISH: the latest sequence */
	uint64_t rate;		   /* PUBLISH: publications a second */
	struct gpushare_info info; /* zero for LOST and RESTART. If the buffer of a DETACH is gone,
				    * only name and generation are set */
};

/**
 * gpushare_open() - connect to the registry; if none runs, start one
 * @options: NULL for defaults
 * @out_session: release with gpushare_close()
 *
 * The connection ends by gpushare_close(), or when the process ends in any way. Then the session's
 * names are withdrawn and its attachments end. No thread is made. No CUDA call is made.
 *
 * Errors:  GPUSHARE_E_NO_REGISTRY, _E_TIMED_OUT, _E_PROTOCOL, _E_DENIED (the directory is another
 *          user's or open to others), _E_NO_MEMORY
 */
int gpushare_open(const struct gpushare_open_options *options,
		  struct gpushare_session **out_session);

/**
 * gpushare_close() - end a session: detach and free every buffer of it, withdraw its names
 * @session: NULL is allowed; not usable afterwards, nor are its buffers and mirrors
 *
 * Open mirrors are dropped: bytes that were not written back are lost.
 *
 * Return: GPUSHARE_OK
 */
int gpushare_close(struct gpushare_session *session);

/**
 * gpushare_share() - give device memory of this process a name
 * @session: from gpushare_open()
 * @name:    1..GPUSHARE_NAME_MAX bytes of [A-Za-z0-9._/-], the first not '-'
 * @pointer: device pointer into a cuMemAlloc, cuMemAllocPitch or cuMemCreate allocation; interior
 *           pointers too
 * @size:    bytes from @pointer, 1 or more, within the allocation
 * @out_buffer: end the sharing with gpushare_free(); the memory itself stays the caller's
 *
 * Call gpushare_free() before freeing the memory. An attacher of a cudaMalloc allocation maps each
 * block of 2 MiB that the allocation touches: see gpushare_info.isolated.
 *
 * Memory of cuMemCreate must have been made with requestedHandleTypes
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, and the bytes must lie in one mapping. Its backing is
 * vmm: attachers keep the memory after the owner has gone. If the bytes are part of a buffer that
 * this session made with GPUSHARE_FLAG_READONLY, other processes may only read them, too.
 *
 * Shapes:  flat byte range.
 * Units:   bytes.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  GPUSHARE_E_NAME, _E_INVALID, _E_RANGE, _E_EXISTS (gpushare_explain() says whose),
 *          _E_NOT_SHAREABLE (managed, stream-ordered or host memory; cuMemCreate without that
 *          handle type), _E_NO_REGISTRY, _E_TIMED_OUT, _E_LIMIT, _E_NO_DRIVER, _E_CUDA
 * Source:  CUDA Driver API, cuIpcGetMemHandle, cuMemGetAddressRange, cuMemRetainAllocationHandle,
 *          cuMemExportToShareableHandle.
 */
int gpushare_share(struct gpushare_session *session, const char *name, uint64_t pointer,
		   size_t size, struct gpushare_buffer **out_buffer);

/**
 * gpushare_share_with() - gpushare_share() with permissions for other users
 * @options: NULL is gpushare_share()
 *
 * Other users can connect only to a registry that serves them: gpushare-registry --system.
 * Permissions work as for files: the first of owner, group and others that matches a user decides,
 * and root may do all. A user who may neither read nor write does not see the name. A user who may
 * read sees the name, and can attach the buffer with gpushare_attach_options.read_only. A user who
 * may read and write can also attach it without that option, and publish. Only the owner's user can
 * unlink or tag it.
 *
 * For a user who may only read, this library maps the memory for reading. The driver does not
 * enforce that: a program that bypasses the library can write to memory that it may read. Memory of
 * cudaMalloc can't be mapped for reading only, so such a user can't attach it.
 *
 * Errors:  as gpushare_share(), and GPUSHARE_E_INVALID (not a valid mode), _E_NOT_FOUND (no such
 *          group), _E_DENIED (the caller is not in it)
 */
int gpushare_share_with(struct gpushare_session *session, const char *name, uint64_t pointer,
			size_t size, const struct gpushare_share_options *options,
			struct gpushare_buffer **out_buffer);

/**
 * gpushare_alloc() - allocate device memory and give it a name
 * @device: CUDA ordinal in this process; -1 for the current context's device, or 0 without one
 * @size:   bytes, 1 or more
 * @out_buffer: release memory and name with gpushare_free()
 *
 * The allocation is whole blocks of 2 MiB, so that the buffer is isolated (gpushare_info.isolated
 * and base_size). If the GPU has no room for whole blocks, it is exactly @size bytes.
 * gpushare_size() is @size.
 *
 * The rest as gpushare_share(); GPUSHARE_E_NO_MEMORY if the GPU has no room.
 *
 * Source:  CUDA Driver API, cuMemAlloc.
 */
int gpushare_alloc(struct gpushare_session *session, const char *name, int device, size_t size,
		   struct gpushare_buffer **out_buffer);

/**
 * gpushare_alloc_with() - allocate device memory with options, and give it a name
 * @options: NULL is gpushare_alloc() with device -1
 *
 * GPUSHARE_FLAG_KEEP: gpushare_free(), gpushare_close() and the end of this process only unmap the
 * buffer here. The registry keeps it for attachers until gpushare_unlink() ('gpushare rm'), the end
 * of its ttl_s, or a new buffer of its name. Then the memory is released as soon as no process maps
 * it. The registry limits how much it keeps (--keep-limit).
 *
 * Once the owner of a kept buffer has gone, a new buffer of the same name replaces it, as a new
 * generation. With adopt, the caller becomes the owner of the kept buffer instead: see
 * gpushare_was_adopted(). An adopted buffer is mapped at the address of its creation if that is
 * free here. same_address in other processes always means that address.
 *
 * GPUSHARE_FLAG_READONLY: other processes map it for reading only. There, calls of this library
 * that would write to it return GPUSHARE_E_READ_ONLY, and the driver refuses other copies into it.
 * A kernel that stores into it ends the CUDA context of its own process
 * (CUDA_ERROR_ILLEGAL_ADDRESS), nobody else's.
 *
 * GPUSHARE_FLAG_VMM: cuMemCreate memory, neither kept nor read-only. If other GPUs can reach the
 * memory's GPU, a session that makes or attaches cuMemCreate memory holds one granule (2 MiB) there
 * until it is closed. So the GPUs stay connected; otherwise the driver ends the connection with the
 * last such buffer, and makes it again for the next, in 1 to 4 ms.
 *
 * GPUSHARE_FLAG_UNIFIED: pinned host memory, which the CPU and every GPU reach at one address:
 * gpushare_pointer() is valid for both, and is the same in every process that attaches the buffer.
 * Use the flag alone or with KEEP and READONLY. The option device selects the NUMA node. The memory
 * is cuMemCreate memory on that node or, if the driver makes none there, a memfd that each process
 * registers with CUDA. The GPU reads it over the bus.
 *
 * GPUSHARE_FLAG_STAGED: the name is taken, but no other process sees it before gpushare_commit().
 * If the owner frees the buffer or ends before that, the buffer is gone, even with KEEP. A staged
 * buffer can't replace a kept one of its name (_E_EXISTS). Not with adopt.
 *
 * cuMemCreate and unified memory is allocated in whole granules (2 MiB): see
 * gpushare_info.base_size.
 *
 * Errors:  as gpushare_alloc(), and GPUSHARE_E_INVALID (unknown flags; ttl_s or adopt without KEEP;
 *          VMM with UNIFIED; STAGED with adopt), _E_LIMIT (the registry can keep no more;
 *          gpushare_explain() says how to remove some), _E_NOT_SUPPORTED (a driver without
 *          cuMemCreate), _E_ADDRESS_TAKEN (adopted unified memory)
 * Source:  CUDA Driver API, cuMemCreate, cuMemHostRegister, cuMemAddressReserve, cuMemMap,
 *          cuMemSetAccess, cuMemExportToShareableHandle.
 */
int gpushare_alloc_with(struct gpushare_session *session, const char *name, size_t size,
			const struct gpushare_alloc_options *options,
			struct gpushare_buffer **out_buffer);

/**
 * gpushare_alloc_array() - gpushare_alloc_with() for @count elements of @element_size bytes
 *
 * Errors:  as gpushare_alloc_with(), and GPUSHARE_E_INVALID if that is 0 bytes, or more than a
 *          size_t holds
 */
int gpushare_alloc_array(struct gpushare_session *session, const char *name, size_t count,
			 size_t element_size, const struct gpushare_alloc_options *options,
			 struct gpushare_buffer **out_buffer);

/**
 * gpushare_attach() - map a named buffer of another process into this one
 * @session: from gpushare_open()
 * @name:    1..GPUSHARE_NAME_MAX bytes of [A-Za-z0-9._/-], the first not '-'
 * @options: NULL for defaults: no wait
 * @out_buffer: release with gpushare_detach(), once for each attach
 *
 * If this process owns the buffer, an ipc buffer gets the owner's address, and a vmm buffer is
 * mapped again. The mapping of a vmm buffer stays when its owner frees it or ends. Attaching the
 * same buffer twice returns the same struct, address and mapping: detach it twice, too. A session
 * that attaches a buffer repeatedly asks the registry only for the first attaches, and only these
 * count in gpushare_info.attachers. If another process owns the buffer and made it with
 * GPUSHARE_FLAG_READONLY, it is mapped for reading only: see gpushare_is_read_only().
 *
 * The buffer's GPU is found by its UUID, whatever CUDA_VISIBLE_DEVICES says in either process. If
 * that GPU is not visible here, or with on_device, another GPU of the machine reaches the memory by
 * peer access; without peer access the call fails with GPUSHARE_E_DEVICE. A buffer that is attached
 * already keeps its mapping, and so its GPU: see gpushare_device().
 *
 * Unified memory is mapped at its owner's address or not at all. All sessions of a process share
 * that mapping, and any GPU can use it.
 *
 * With host_only no CUDA call is made, now or later. Attachments with and without host_only are
 * separate, even in one session.
 *
 * One file descriptor is held for each attached vmm or unified buffer. It is close-on-exec,
 * numbered 256 or more if the limit allows, and closed in a forked child. If the program closes it,
 * gpushare_map() can't map a vmm buffer any more, and a registry that has lost the memory can't get
 * it again; nothing else fails.
 *
 * With read_only, gpushare_is_read_only() is 1. A vmm or unified buffer is then mapped for reading
 * only; for memory of cudaMalloc, only this library's own writes are refused. Attachments with and
 * without read_only are separate, except of unified memory, which is mapped once. If that mapping
 * is for reading only, attaching without read_only fails with GPUSHARE_E_READ_ONLY.
 *
 * Shapes:  flat byte range of gpushare_size() bytes.
 * Units:   bytes; milliseconds.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  GPUSHARE_E_NAME, _E_NOT_FOUND (gpushare_explain() has the last owner), _E_TIMED_OUT,
 *          _E_DENIED (gpushare_explain() says whose it is), _E_OWNER_GONE, _E_NO_REGISTRY,
 *          _E_DEVICE, _E_NO_DRIVER, _E_CUDA, _E_LIMIT, _E_NOT_SUPPORTED (a vmm buffer that the
 *          driver or GPU can't map; same_address or host_only of an ipc buffer; host_only of
 *          unified memory that cuMemCreate made), _E_ADDRESS_TAKEN
 * Source:  CUDA Driver API, cuIpcOpenMemHandle, cuMemImportFromShareableHandle, cuMemMap.
 */
int gpushare_attach(struct gpushare_session *session, const char *name,
		    const struct gpushare_attach_options *options,
		    struct gpushare_buffer **out_buffer);

/**
 * gpushare_attach_many() - attach all of these names, or none
 * @session: from gpushare_open()
 * @names:   @count of them; a name that occurs twice is attached twice
 * @options: as for gpushare_attach(), for each name; wait_ms is for all names together
 * @out_buffers: room for @count; each as from gpushare_attach(), in the order of @names
 *
 * Each name is attached as by gpushare_attach(), but up to 32 requests are sent before the earlier
 * ones are answered, and CUDA opens one buffer while the registry answers for the next. If a name
 * can't be attached, the call detaches those before it. A caller that can use a part of a set
 * should attach the names one by one.
 *
 * Shapes:  flat byte ranges.
 * Units:   milliseconds.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  as gpushare_attach(), for the first name that fails (gpushare_explain() says which);
 *          GPUSHARE_E_INVALID, _E_NO_MEMORY
 * Source:  CUDA Driver API, cuIpcOpenMemHandle, cuMemImportFromShareableHandle, cuMemMap.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; then @out_buffers is untouched.
 */
int gpushare_attach_many(struct gpushare_session *session, const char *const *names, size_t count,
			 const struct gpushare_attach_options *options,
			 struct gpushare_buffer **out_buffers);

/**
 * gpushare_detach() - end one attachment
 * @buffer: from gpushare_attach() or gpushare_attach_many(); NULL is allowed. The last detach
 *          unmaps the memory and frees the struct.
 *
 * Work on the buffer must have ended: the call does not wait for streams. After the last detach
 * this process is neither publisher nor consumer of the buffer, even while a mirror or a tensor
 * keeps the memory. A publisher may then overwrite it.
 *
 * Errors:  GPUSHARE_E_INVALID (the buffer came from share or alloc), _E_FORKED, _E_CUDA
 */
int gpushare_detach(struct gpushare_buffer *buffer);

/**
 * gpushare_free() - stop sharing a buffer, and free it if gpushare_alloc() made it
 * @buffer: NULL is allowed; not usable afterwards
 *
 * The name is withdrawn first; then memory from gpushare_alloc() is freed. But if other processes
 * still have an ipc buffer attached, the session holds its memory for them. (The memory of a vmm
 * buffer stays as long as a process maps it.) A session holds at most 64 buffers and
 * $GPUSHARE_DEFERRED_FREE bytes; beyond that, it frees the oldest first. Once no process has a held
 * buffer attached, the next gpushare_alloc(), gpushare_share() or gpushare_free() frees it. A
 * gpushare_alloc() that finds no room frees all held buffers, and so does gpushare_close().
 *
 * Memory that was given to gpushare_share() stays the caller's: let the others detach before you
 * free it. A buffer with GPUSHARE_FLAG_KEEP is unmapped here and stays under its name, without an
 * owner.
 *
 * Errors:  GPUSHARE_E_INVALID (the buffer came from attach), _E_FORKED, _E_CUDA
 */
int gpushare_free(struct gpushare_buffer *buffer);

/**
 * gpushare_commit() - show a staged name to other processes, once contents and tags are complete
 * @buffer: from gpushare_alloc_with() with GPUSHARE_FLAG_STAGED, or gpushare_share_with() with
 *          staged; for any other buffer, or once committed, the call does nothing
 *
 * A process that waits for the name gets it now. The caller makes sure that the GPU has finished
 * writing the contents: a commit waits for no stream. The call is safe from any thread, and asks
 * the registry once.
 *
 * Errors:  GPUSHARE_E_INVALID (another process's buffer), _E_NOT_FOUND (the name was removed
 *          meanwhile), _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT (the name may be visible or not;
 *          call again)
 */
int gpushare_commit(struct gpushare_buffer *buffer);

/**
 * gpushare_share_parts() - give names to parts of a buffer, each with its tags
 * @buffer: vmm memory that this session allocated or shared: see gpushare_info.backing
 * @parts:  @count of them; they may overlap
 *
 * Processes attach a part like any buffer; it is part of the memory of @buffer, not a copy. A part
 * has the flags, ttl_s and permissions of @buffer. The names are visible at once, even if @buffer
 * is staged: write the contents first. gpushare_free() of @buffer ends its parts, too; with
 * GPUSHARE_FLAG_KEEP they stay with it. gpushare_unlink() removes only the name that it is given,
 * of @buffer or of one part. The memory is released when @buffer is freed and no process has it or
 * a part of it attached. Each part counts as a descriptor towards the registry's limits, and a kept
 * part counts its own bytes towards the limit on kept memory.
 *
 * The requests are sent without waiting for each answer: 300 names take a few milliseconds.
 *
 * Shapes:  flat byte ranges.
 * Units:   bytes.
 * Threads: safe from any thread; no CUDA call is made.
 * Errors:  GPUSHARE_E_NAME, _E_INVALID (a buffer from gpushare_attach(); a tag), _E_RANGE,
 *          _E_NOT_FOUND (@buffer was unlinked),
 *          _E_EXISTS (gpushare_explain() says which name, and whose), _E_LIMIT, _E_NO_MEMORY,
 *          _E_NOT_SUPPORTED (memory that is not vmm; a registry older than this call), _E_FORKED,
 *          _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; then this call gave no names.
 */
int gpushare_share_parts(struct gpushare_buffer *buffer, const struct gpushare_part *parts,
			 size_t count);

/**
 * gpushare_unlink() - remove a name; memory and attachments stay, and a kept buffer ends with its
 * last attachment
 * @name: of a buffer that the caller's user owns
 *
 * Errors:  GPUSHARE_E_NAME, _E_NOT_FOUND, _E_DENIED, _E_NO_REGISTRY, _E_TIMED_OUT
 */
int gpushare_unlink(struct gpushare_session *session, const char *name);

/**
 * gpushare_tag() - set tags of a buffer, for any process that looks at it
 * @name:  of a buffer that the caller's user owns
 * @tags:  the tags to set; an empty value removes the tag of that key. All of them are set, or
 *         none.
 * @count: of @tags, up to GPUSHARE_TAGS_MAX
 *
 * Tags stay as long as the buffer, even if it is kept, loses its owner and is adopted. Tags are
 * only text: they have no effect on the buffer.
 *
 * Errors:  GPUSHARE_E_NAME, _E_NOT_FOUND, _E_DENIED, _E_INVALID (an invalid key or value, or a key
 *          that comes twice), _E_LIMIT (more than GPUSHARE_TAGS_MAX), _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; then no tag was changed.
 */
int gpushare_tag(struct gpushare_session *session, const char *name,
		 const struct gpushare_tag *tags, size_t count);

/**
 * gpushare_tags() - a buffer's tags as they are now; gpushare_buffer_info() has those that it had
 * at share or attach
 * @out_tags:  room for GPUSHARE_TAGS_MAX
 * @out_count: number of tags that were filled in
 *
 * Asks the registry.
 *
 * Errors:  GPUSHARE_E_NOT_FOUND (the name is gone, or is another buffer's now), _E_INVALID,
 *          _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; nothing is filled in then.
 */
int gpushare_tags(struct gpushare_buffer *buffer, struct gpushare_tag *out_tags, size_t *out_count);

/**
 * gpushare_holders() - who has a buffer attached
 * @generation: gpushare_info.generation, also of a deferred buffer; 0: the buffer that has the name
 *              now
 * @visit: called once per connection, with @user; if it returns anything but 0, the call ends
 *
 * Errors:  GPUSHARE_E_CANCELLED (@visit ended it), _E_NAME, _E_NOT_FOUND, _E_INVALID,
 *          _E_NO_REGISTRY, _E_TIMED_OUT
 */
int gpushare_holders(struct gpushare_session *session, const char *name, uint64_t generation,
		     int (*visit)(const struct gpushare_holder *holder, void *user), void *user);

/**
 * gpushare_stat() - what the registry knows of one name
 * @out_info: filled on success
 *
 * Errors:  as gpushare_unlink()
 */
int gpushare_stat(struct gpushare_session *session, const char *name,
		  struct gpushare_info *out_info);

/**
 * gpushare_list() - list the buffers that the caller may see, if their names match a pattern, in
 * byte order
 * @glob:  fnmatch(3) pattern; NULL for all. '*' matches '/' too.
 * @visit: called once per buffer, with @user; if it returns anything but 0, the listing ends
 *
 * Names that appear or disappear during the call may be listed or not. No name is listed twice.
 *
 * Errors:  GPUSHARE_E_CANCELLED (@visit ended it), _E_INVALID, _E_LIMIT (256 lists of this user
 *          wait for their turn), _E_NO_REGISTRY, _E_TIMED_OUT
 */
int gpushare_list(struct gpushare_session *session, const char *glob,
		  int (*visit)(const struct gpushare_info *info, void *user), void *user);

/**
 * gpushare_list_deferred() - buffers that their owners have freed and hold for attachers
 *
 * The rest as gpushare_list(), but ordered by generation. A name may be listed more than once.
 */
int gpushare_list_deferred(struct gpushare_session *session, const char *glob,
			   int (*visit)(const struct gpushare_info *info, void *user), void *user);

/** gpushare_list_events() - named events, not buffers; the rest as gpushare_list() */
int gpushare_list_events(struct gpushare_session *session, const char *glob,
			 int (*visit)(const struct gpushare_info *info, void *user), void *user);

/**
 * gpushare_stat_registry() - the load of the session's registry
 * @out_info: filled on success
 *
 * Errors:  GPUSHARE_E_INVALID, _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT
 */
int gpushare_stat_registry(struct gpushare_session *session,
			   struct gpushare_registry_info *out_info);

/**
 * gpushare_watch() - get notices of what happens to buffers from now on
 * @session: from gpushare_open(); it may be closed before the watch
 * @glob:    fnmatch(3) pattern for the names; NULL for all. '*' matches '/' too.
 * @out_watch: end with gpushare_watch_close()
 *
 * Every watcher gets notices of all that happens after this call has returned, in order. Each
 * watcher has a socket of its own, and the registry never waits for it. The registry keeps the
 * latest 1024 notices for slow watchers. If a watcher is slower than that, it loses the oldest
 * notices, and a LOST notice says how many. When the registry ends, the watch looks for the next
 * registry, but starts none. When it has found one, it gives a RESTART notice. Changes in between
 * are not reported. No thread is made, and memory is bounded (64 KiB).
 *
 * Three file descriptors are held, close-on-exec. After fork() the child can only close its copy.
 * Until the child does that, calls exec() or ends, the registry still counts the watcher, even if
 * the parent closes it. A registry that has a watcher does not exit when it is idle.
 *
 * Threads: safe from any thread; use a watch in one thread at a time. No CUDA call is made.
 * Errors:  GPUSHARE_E_INVALID, _E_FORKED, _E_NO_REGISTRY (or it is too old to send notices),
 *          _E_DENIED, _E_TIMED_OUT, _E_LIMIT (file descriptors), _E_NO_MEMORY
 */
int gpushare_watch(struct gpushare_session *session, const char *glob,
		   struct gpushare_watch **out_watch);

/**
 * gpushare_watch_next() - the next notice
 * @timeout_ms: how long to wait for one; 0: don't wait; negative: no limit
 * @out_notice: filled on success
 *
 * The wait takes no CPU time. It goes on while no registry runs.
 *
 * Errors:  GPUSHARE_E_TIMED_OUT (there is no notice), _E_INVALID, _E_FORKED, _E_PROTOCOL (the
 *          listener is no registry, or of another version; the next call connects anew), _E_DENIED
 *          (another user's registry), _E_IO
 */
int gpushare_watch_next(struct gpushare_watch *watch, int timeout_ms,
			struct gpushare_notice *out_notice);

/**
 * gpushare_watch_fd() - the descriptor on which poll(2) and epoll(7) may wait for POLLIN; -1 for
 * NULL
 *
 * The descriptor of a watch stays the same. When it is readable, call gpushare_watch_next() with
 * timeout 0, which may return GPUSHARE_E_TIMED_OUT. Use the descriptor for nothing else.
 */
int gpushare_watch_fd(const struct gpushare_watch *watch);

/** gpushare_watch_close() - end a watch; NULL is allowed; in a forked child only its copy ends */
void gpushare_watch_close(struct gpushare_watch *watch);

/** gpushare_notice_text() - a kind of notice in a word; never NULL */
const char *gpushare_notice_text(enum gpushare_notice_kind kind);

/**
 * gpushare_state() - whether a buffer still has its name
 * @buffer: any buffer; of interest for one from gpushare_attach()
 * @out_state: one of GPUSHARE_STATES
 *
 * Asks the registry. In each state the memory of an attached vmm or unified buffer stays valid
 * until gpushare_detach(). The memory of an ipc buffer is valid only while its owner lives and
 * holds it: see gpushare_free().
 *
 * Threads: safe from any thread; no CUDA call is made, except to share memory again with a registry
 *          that was restarted.
 * Errors:  GPUSHARE_E_INVALID, _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT
 */
int gpushare_state(struct gpushare_buffer *buffer, enum gpushare_state *out_state);

/** gpushare_state_text() - a state in a word; never NULL */
const char *gpushare_state_text(enum gpushare_state state);

/** gpushare_pointer() - the device pointer in this process, a CUdeviceptr; 0: NULL or host_only */
uint64_t gpushare_pointer(const struct gpushare_buffer *buffer);

/** gpushare_size() - bytes; 0 for NULL */
size_t gpushare_size(const struct gpushare_buffer *buffer);

/** gpushare_device() - the CUDA ordinal of the GPU for which the buffer is mapped here: its own
 * GPU, unless it was attached for another one; -1: NULL or host_only */
int gpushare_device(const struct gpushare_buffer *buffer);

/** gpushare_is_read_only() - 1: attached for reading only, see gpushare_attach(); 0 for NULL */
int gpushare_is_read_only(const struct gpushare_buffer *buffer);

/** gpushare_was_adopted() - 1: gpushare_alloc_with() took over a kept buffer; 0 for NULL */
int gpushare_was_adopted(const struct gpushare_buffer *buffer);

/** gpushare_buffer_info() - the buffer's record as it was at share or attach; no registry call */
int gpushare_buffer_info(const struct gpushare_buffer *buffer, struct gpushare_info *out_info);

/**
 * gpushare_read() - stream device memory to the host through two pinned buffers
 * @buffer: any buffer
 * @offset, @length: bytes, within the buffer; a @length of 0 does nothing
 * @sink: called in order with host memory that is valid during the call; anything but 0 ends it
 *
 * One chunk is copied while @sink has the previous one. For a host_only buffer the CPU copies
 * through a map, with the errors of gpushare_map(); the same is true of the three calls below.
 *
 * Threads: safe; @sink runs on the caller's thread with the buffer's context current.
 * Errors:  GPUSHARE_E_RANGE, _E_CANCELLED (@sink ended it), _E_NO_MEMORY, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuMemcpyDtoHAsync, cuMemHostAlloc.
 */
int gpushare_read(struct gpushare_buffer *buffer, size_t offset, size_t length,
		  int (*sink)(const void *data, size_t size, void *user), void *user);

/**
 * gpushare_write() - stream host data into device memory through two pinned buffers
 * @source: fills @data with exactly @size bytes; anything but 0 ends it
 *
 * The rest as gpushare_read(). If it fails with GPUSHARE_E_READ_ONLY, nothing was written; after
 * another failure, some bytes may be.
 */
int gpushare_write(struct gpushare_buffer *buffer, size_t offset, size_t length,
		   int (*source)(void *data, size_t size, void *user), void *user);

/**
 * gpushare_copy_from() - device to host, synchronous; errors as gpushare_read()
 *
 * It waits for earlier GPU work as cuMemcpy does. But while this process has the buffer mapped
 * (gpushare_map()), the CPU makes small copies through the map, and these wait for no stream. Small
 * means up to 4 KiB, or up to 256 KiB for gpushare_copy_to(). So first wait for work that writes
 * the buffer. Only work that is launched after a gpushare_copy_to() is sure to see its bytes.
 */
int gpushare_copy_from(struct gpushare_buffer *buffer, size_t offset, void *host, size_t length);

/** gpushare_copy_to() - host to device; errors as gpushare_write(), the rest as above */
int gpushare_copy_to(struct gpushare_buffer *buffer, size_t offset, const void *host,
		     size_t length);

/**
 * gpushare_map() - let the CPU load from and store to the GPU's memory of a buffer
 * @buffer: a vmm or unified buffer: this process's own, or attached, even host_only
 * @offset, @length: bytes, within the buffer, at any alignment; @length 1 or more
 * @access: GPUSHARE_READ, GPUSHARE_WRITE or both, of enum gpushare_access
 * @out_map: release with gpushare_unmap()
 *
 * There is no copy: the CPU's loads and stores reach the GPU's memory itself. Until a map ends, it
 * keeps the memory, even if the owner frees it or ends, the buffer is detached or the session is
 * closed. All maps of a buffer share one mapping of the whole buffer. If the buffer is read-only
 * here, so is the mapping: a store ends in SIGSEGV.
 *
 * A map of unified memory (backend "host") is at the buffer's own address, cached and coherent, and
 * read-only if the buffer is. With host_only, that address may be taken in this process. Then the
 * map is at another address, and CUDA can't attach the buffer here until the map has ended.
 *
 * A map is made by dma-buf if the driver offers that and CUDA has the buffer mapped here, else by
 * Vulkan. Vulkan needs libvulkan.so.1, a Vulkan driver of that GPU, and the GPU's memory visible to
 * the CPU (its BAR). The process's first map starts Vulkan, which takes 0.3 to 0.8 s; Vulkan stays
 * loaded. The first map by dma-buf also tests, on other memory, that stores arrive. If neither
 * works, or the GPU has no coherent memory for the CPU, the call returns GPUSHARE_E_NOT_SUPPORTED,
 * and gpushare_explain() has the reason. A mirror (gpushare_mirror_open) works wherever CUDA does.
 *
 * After stores, call gpushare_map_flush(), which also completes write-combined ones. GPU work that
 * is enqueued after the flush sees the stores. A kernel that runs already may see them or not.
 * Before the CPU loads what GPU work has written, wait for that work, and call
 * gpushare_map_invalidate(). A copy to the GPU from pageable memory may return before it has ended:
 * then synchronize, too.
 *
 * After fork() only the parent has the mapping: in the child nothing is mapped at its address, and
 * calls on the map return GPUSHARE_E_FORKED. If the parent had called gpushare_map(), each
 * gpushare_map() in the child returns the same, because Vulkan does not survive a fork. A program
 * that the child starts by exec() can map again.
 *
 * The exit handler of NVIDIA's Vulkan driver must not run in a forked child: it would crash, and
 * the parent would hang at its own exit forever. So once this process has started Vulkan, exit() in
 * a child, or a return from its main(), runs only exit handlers that were registered after the
 * first map. Earlier ones, and earlier static destructors, do not run. The exit code is kept, and
 * stdio streams are flushed. For the same reason dlclose() no longer unloads the library. A child
 * that is forked while another thread makes the first map of a GPU should end by _exit().
 *
 * Shapes:  flat byte range.
 * Units:   bytes.
 * Threads: safe from any thread; needs no CUDA context, and no CUDA for a host_only buffer.
 * Errors:  GPUSHARE_E_INVALID, _E_RANGE, _E_READ_ONLY, _E_NOT_SUPPORTED (an ipc buffer; no Vulkan
 *          and no dma-buf; a GPU that does not show its memory to the CPU), _E_NO_MEMORY (the GPU's
 *          BAR or the CPU's memory is full), _E_LIMIT (file descriptors), _E_CUDA, _E_FORKED
 * Source:  Vulkan, VK_KHR_external_memory_fd, vkMapMemory; CUDA Driver API,
 *          cuMemGetHandleForAddressRange.
 */
int gpushare_map(struct gpushare_buffer *buffer, size_t offset, size_t length, unsigned int access,
		 struct gpushare_map **out_map);

/**
 * gpushare_map_with() - gpushare_map() with requirements for the map
 * @options: NULL for defaults
 */
int gpushare_map_with(struct gpushare_buffer *buffer, size_t offset, size_t length,
		      unsigned int access, const struct gpushare_map_options *options,
		      struct gpushare_map **out_map);

/** gpushare_map_data() - the first byte, at @offset of the buffer; NULL for NULL and in a forked
 * child */
void *gpushare_map_data(const struct gpushare_map *map);

/** gpushare_map_size() - bytes: the length that was asked for; 0 for NULL */
size_t gpushare_map_size(const struct gpushare_map *map);

/** gpushare_map_info() - how a map was made; errors: GPUSHARE_E_INVALID */
int gpushare_map_info(const struct gpushare_map *map, struct gpushare_map_info *out_info);

/**
 * gpushare_map_flush() - send the CPU's stores in a part of a map to the GPU
 * @offset, @length: bytes, within the map
 *
 * It waits until the CPU's write buffers are empty, which takes nanoseconds.
 *
 * Errors:  GPUSHARE_E_INVALID, _E_RANGE, _E_FORKED
 */
int gpushare_map_flush(struct gpushare_map *map, size_t offset, size_t length);

/** gpushare_map_invalidate() - let the CPU's next loads of a part see what the GPU has written; a
 * fence for the compiler and the CPU. The rest as gpushare_map_flush() */
int gpushare_map_invalidate(struct gpushare_map *map, size_t offset, size_t length);

/**
 * gpushare_unmap() - release one map; with a buffer's last map its memory is unmapped
 * @map: NULL is allowed; not usable afterwards, nor is its address
 *
 * Errors:  GPUSHARE_E_FORKED: the map is the parent's, and stays
 */
int gpushare_unmap(struct gpushare_map *map);

/**
 * gpushare_mirror_open() - a copy of a part of a buffer in pinned host memory
 * @buffer: any buffer; its memory stays mapped after detach or free, until its mirrors have ended
 * @offset, @length: bytes, within the buffer; a @length of 0 is allowed and copies nothing
 * @access: of enum gpushare_access: READ fills the copy now, WRITE writes it back when the mirror
 *          is closed. WRITE without READ: the copy's first contents are undefined, so write all
 *          bytes
 * @out_mirror: end with gpushare_mirror_close() or gpushare_mirror_drop()
 *
 * The GPU makes one copy each way, ordered as cuMemcpy is. As pinning takes longer than copying,
 * the session keeps the pinned memory of ended mirrors for later ones until gpushare_close(): at
 * most as much as its open mirrors ever had at one time.
 *
 * Threads: safe; use a mirror in one thread at a time.
 * Errors:  GPUSHARE_E_RANGE, _E_INVALID (no access, or an unknown one), _E_READ_ONLY (WRITE of a
 *          buffer that is read-only here), _E_NO_MEMORY (gpushare_explain() has the size: mirror it
 *          in parts), _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuMemHostAlloc, cuMemcpyDtoH, cuMemcpyHtoD.
 */
int gpushare_mirror_open(struct gpushare_buffer *buffer, size_t offset, size_t length,
			 unsigned int access, struct gpushare_mirror **out_mirror);

/** gpushare_mirror_data() - the first byte of the copy, page-aligned; NULL for NULL */
void *gpushare_mirror_data(const struct gpushare_mirror *mirror);

/** gpushare_mirror_size() - bytes; 0 for NULL */
size_t gpushare_mirror_size(const struct gpushare_mirror *mirror);

/**
 * gpushare_mirror_sync() - write the copy back now; the mirror stays open
 *
 * When this returns, the bytes are in the buffer: all processes see them from then on.
 *
 * Errors:  GPUSHARE_E_INVALID (the mirror is not for WRITE), _E_CUDA, _E_FORKED
 */
int gpushare_mirror_sync(struct gpushare_mirror *mirror);

/**
 * gpushare_mirror_close() - write the copy back if it is for WRITE, and end the mirror
 * @mirror: NULL is allowed; not usable afterwards unless this failed
 *
 * Errors:  GPUSHARE_E_CUDA, _E_FORKED: the mirror stays open and its bytes stay readable, even if
 *          the program has destroyed the context in which it made the buffer. Try again, or save
 *          the bytes, or gpushare_mirror_drop() it.
 */
int gpushare_mirror_close(struct gpushare_mirror *mirror);

/** gpushare_mirror_drop() - end a mirror without writing back; NULL is allowed */
void gpushare_mirror_drop(struct gpushare_mirror *mirror);

/** gpushare_mirror_scope_end() - for the macro below: gpushare_mirror_drop() of *@mirror */
void gpushare_mirror_scope_end(struct gpushare_mirror **mirror);

/*
 * In C with GNU cleanup, a mirror that ends with its scope:
 *
 *	gpushare_mirror_scope struct gpushare_mirror *mirror = NULL;
 *
 * The scope's end drops the mirror, so that an early return does not write back a copy that is half
 * done. Call gpushare_mirror_sync() to write it back; the result says whether that worked. Don't
 * close or drop the mirror yourself.
 */
#define gpushare_mirror_scope __attribute__((cleanup(gpushare_mirror_scope_end)))

/**
 * gpushare_event_create() - make a CUDA event that other processes open by name
 * @session: from gpushare_open()
 * @name:    1..GPUSHARE_NAME_MAX bytes of [A-Za-z0-9._/-], the first not '-'; buffers and events
 *           share one set of names, in which each name is taken once
 * @device:  CUDA ordinal in this process; -1 for the current context's device, or 0 without one
 * @flags:   0, or CUDA's own: CU_EVENT_DISABLE_TIMING, optionally with CU_EVENT_BLOCKING_SYNC and
 *           CU_EVENT_INTERPROCESS, which is added anyway. Without DISABLE_TIMING, the other two are
 *           refused, as by CUDA: an interprocess event has no timing
 * @out_event: end it with gpushare_event_close()
 *
 * The event belongs to the current context if that is on @device, else to the device's primary
 * context. CUDA lets only streams of that context record it. Close the event or its session before
 * that context is destroyed: CUDA crashes if it is given a destroyed context. An event that was
 * never recorded counts as done. The event's name ends as a buffer's does: by
 * gpushare_event_close(), gpushare_close(), gpushare_unlink(), or with the process.
 * gpushare_list_events() and 'gpushare events' list events, gpushare_list() does not.
 *
 * Threads: safe from any thread; needs no current CUDA context; spoils no stream capture.
 * Errors:  GPUSHARE_E_NAME, _E_INVALID (flags, device), _E_EXISTS, _E_NO_MEMORY (a process can have
 *          4096 such events), _E_LIMIT, _E_NOT_SUPPORTED, _E_NO_REGISTRY, _E_TIMED_OUT,
 *          _E_NO_DRIVER, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuEventCreate, cuIpcGetEventHandle.
 */
int gpushare_event_create(struct gpushare_session *session, const char *name, int device,
			  unsigned int flags, struct gpushare_event **out_event);

/**
 * gpushare_event_create_with() - gpushare_event_create() with permissions for other users
 * @options: NULL for defaults: this user alone
 *
 * Permissions are as for gpushare_share_with(), except that opening an event needs the right to
 * read and the right to write. CUDA's handle of an event lets its holder record as well as wait, so
 * a user who may only read gets GPUSHARE_E_DENIED.
 *
 * Errors:  as gpushare_event_create(), and GPUSHARE_E_INVALID (not a valid mode), _E_NOT_FOUND (no
 *          such group), _E_DENIED (this process is not in the group)
 */
int gpushare_event_create_with(struct gpushare_session *session, const char *name, int device,
			       unsigned int flags, const struct gpushare_share_options *options,
			       struct gpushare_event **out_event);

/**
 * gpushare_event_open() - open an event of another process by its name
 * @options: NULL for defaults: its owner's device, no wait
 * @out_event: end it with gpushare_event_close()
 *
 * A process that opened the event can record it, too: later waits in all processes, its creator's
 * included, wait for that. In the process that created the event, the call returns the event
 * itself; cuIpcOpenEventHandle would refuse that (CUDA_ERROR_INVALID_CONTEXT). Opening it twice in
 * a session returns the same struct: close it twice, too. The processes must share one /dev/shm, by
 * which CUDA shares events. If they don't, as in separate containers, the call returns
 * GPUSHARE_E_CUDA (CUDA_ERROR_MAP_FAILED).
 *
 * Threads: safe from any thread; needs no current CUDA context; spoils no stream capture.
 * Errors:  GPUSHARE_E_NOT_FOUND, _E_INVALID (the name is a buffer's), _E_OWNER_GONE (the owner has
 *          gone just now), _E_TIMED_OUT (with wait_ms), _E_DENIED, _E_DEVICE, _E_NO_MEMORY,
 *          _E_NOT_SUPPORTED, _E_NO_REGISTRY, _E_NO_DRIVER, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuIpcOpenEventHandle.
 */
int gpushare_event_open(struct gpushare_session *session, const char *name,
			const struct gpushare_event_options *options,
			struct gpushare_event **out_event);

/**
 * gpushare_event_record() - record in the event the work that @stream has been given so far
 * @stream: a CUstream or cudaStream_t of the event's context; NULL for its default stream
 *
 * Later waits wait for that work. Waits that have begun wait for what was recorded before. CUDA
 * can't capture an interprocess event: on a stream that is being captured the call is refused, and
 * the capture goes on.
 *
 * Threads: safe; needs no current CUDA context. Doesn't ask the registry.
 * Errors:  GPUSHARE_E_INVALID (an invalid stream, or one of another context), _E_NOT_SUPPORTED (it
 *          is being captured), _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuEventRecord.
 */
int gpushare_event_record(struct gpushare_event *event, void *stream);

/**
 * gpushare_event_wait() - let @stream wait for what was recorded last before it goes on
 * @stream: a CUstream or cudaStream_t of the event's context; NULL for its default stream, if no
 *          other context is current. For a stream of another GPU open the event there too: see
 *          gpushare_event_options
 *
 * The CPU does not wait. If the event's owner (its creator) has gone and the recorded work is not
 * done, the call returns GPUSHARE_E_OWNER_GONE and the stream does not wait. If a process is killed
 * while streams of others wait for its work, nothing releases them (measured, driver 580). They
 * hang until their own processes end, and so does all that waits for them. If that matters, use
 * gpushare_event_wait_host(). A stream that is being captured is refused, and the capture goes on.
 *
 * Threads: safe; needs no current CUDA context. Asks the registry only after a change of the name
 *          or a restart of the registry.
 * Errors:  GPUSHARE_E_INVALID (an invalid stream, or one of another context), _E_NOT_SUPPORTED (it
 *          is being captured), _E_OWNER_GONE, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuStreamWaitEvent.
 */
int gpushare_event_wait(struct gpushare_event *event, void *stream);

/**
 * gpushare_event_query() - whether the work that was recorded last is done
 *
 * Threads: as gpushare_event_wait(); spoils no stream capture.
 *
 * Return: GPUSHARE_OK: done; GPUSHARE_E_NOT_READY: not done; _E_OWNER_GONE: not done, and perhaps
 *         never, because the owner is gone; _E_INVALID, _E_CUDA, _E_FORKED.
 */
int gpushare_event_query(struct gpushare_event *event);

/**
 * gpushare_event_wait_host() - wait on the CPU for what was recorded last
 * @timeout_ms: milliseconds; 0: only look; negative: no limit
 *
 * It asks the driver without a pause for some 50 us, then with pauses that grow to 1 ms. Meanwhile
 * it checks whether the owner is gone.
 *
 * Threads: safe, also with each other; needs no current CUDA context; spoils no stream capture.
 * Errors:  GPUSHARE_E_TIMED_OUT, _E_OWNER_GONE (not done, and the owner is gone), _E_INVALID,
 *          _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuEventQuery.
 */
int gpushare_event_wait_host(struct gpushare_event *event, int timeout_ms);

/**
 * gpushare_event_close() - undo one create or open; the last close ends the event here
 * @event: NULL is allowed; not usable afterwards
 *
 * The creator's close removes the name. The CUDA event stays in the creator's session until no
 * process has it open, or the session ends, so that waits of other processes still end. A session
 * keeps at most 64 such events; beyond that, the oldest ends first.
 *
 * Errors:  GPUSHARE_E_CUDA, _E_FORKED
 */
int gpushare_event_close(struct gpushare_event *event);

/** gpushare_event_handle() - the CUevent, for your own CUDA calls in its context; NULL for NULL */
void *gpushare_event_handle(const struct gpushare_event *event);

/** gpushare_event_info() - the event's record as it was at create or open; its size is 0, its
 * backing EVENT. Errors: GPUSHARE_E_INVALID */
int gpushare_event_info(const struct gpushare_event *event, struct gpushare_info *out_info);

/** struct gpushare_dlpack_options - a C-contiguous tensor over a buffer; device_type, code, bits
 * and lanes are as in DLPack's DLDevice and DLDataType */
struct gpushare_dlpack_options {
	int device_type; /* 2 or 0: CUDA; for a unified buffer also 1 (CPU) or 3 (pinned memory) */
	unsigned char code;   /* of the element's type; if bits is 0, the type is uint8 */
	unsigned char bits;   /* of a lane; bits times lanes must be a multiple of 8 */
	unsigned short lanes; /* 0 means 1 */
	int versioned;	      /* 1: a DLManagedTensorVersioned, which can say "read-only" */
	int ndim;
	const int64_t *shape; /* elements in each of ndim dimensions */
	size_t offset;	      /* bytes into the buffer */
};

/**
 * gpushare_dlpack() - make a DLPack tensor of a buffer, for any library that takes such tensors
 * @options: NULL for all of it in one dimension of uint8, as a DLManagedTensor
 * @out_managed: a DLManagedTensor or DLManagedTensorVersioned; end it by calling its `deleter`
 *
 * The memory stays mapped until the deleter is called, even after gpushare_detach(),
 * gpushare_free() and gpushare_close(). If one of those has ended the buffer, the deleter waits as
 * cuCtxSynchronize does, and then unmaps or frees the memory. Memory that was given to
 * gpushare_share() stays the caller's. The deleter may be called once, by any thread, at any time.
 * In a forked child it frees only the struct.
 *
 * This call waits for nothing: the reader must order its work after the writer's.
 *
 * Shapes:  as in @options, C-contiguous, within the buffer.
 * Units:   elements; offset in bytes.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  GPUSHARE_E_INVALID, _E_RANGE, _E_NOT_SUPPORTED (a host_only buffer; or @options asks
 *          for the CPU's type and the buffer is not unified), _E_NO_MEMORY, _E_FORKED
 * Source:  DLPack 1.0, dlpack.h.
 */
int gpushare_dlpack(struct gpushare_buffer *buffer, const struct gpushare_dlpack_options *options,
		    void **out_managed);

/*
 * Publications order what one process writes into a buffer and others read. They are numbered 1, 2,
 * 3 and so on, and the numbers are in a page of host memory that belongs to the buffer. The first
 * process that publishes becomes the publisher: the buffer's owner, or another process that may
 * write it. A second process that publishes gets GPUSHARE_E_DENIED, and gpushare_explain() names
 * the publisher. Many processes can consume, each at its own pace. The publisher may wait until all
 * of them are done with a number. For a ring of frames see tests/demo/ring_producer.c and
 * ring_consumer.c.
 *
 * The calls with a stream return at once; what they do happens in the stream's order. `stream` is a
 * CUstream or cudaStream_t of any context; NULL: the legacy default stream of the current context,
 * or of the buffer's context if none is current. The calls that end in _host act at once, by the
 * CPU, and need no CUDA: they also work on host_only buffers. A process's first call on a buffer
 * asks the registry, and so do the first that publishes and the first that joins. Other calls
 * don't.
 *
 * GPUSHARE_E_TIMED_OUT means that another thread's call on the same buffer took too long (for a
 * call with a stream: ten seconds or the session's time limit, whichever is more). Or it means that
 * the registry was restarted, and its clients have not reported the buffer to it yet. In either
 * case the call has done nothing: call again. gpushare_leave() is different: see there.
 *
 * If a GPU has no 64-bit stream memory operations, host functions store the numbers. Then
 * gpushare_acquire() and gpushare_reclaim() wait on the CPU. So do gpushare_publish() and
 * gpushare_release(), if another stream or the CPU has an earlier number to write. None of these
 * calls can be captured then. gpushare_ordering() says which way is used.
 *
 * The publisher has gone if it has detached or freed the buffer, or has ended. A moment after the
 * registry notices that, waits for publications that did not come end with GPUSHARE_E_OWNER_GONE,
 * and streams that wait for one go on. Then gpushare_order_status() returns GPUSHARE_E_OWNER_GONE,
 * and gpushare_sequence() the number up to which the data is complete. While its process lives, the
 * publisher's streams still publish, in order, what they were given. Nothing waits for a consumer
 * that has gone.
 */

/**
 * gpushare_publish() - publish when the stream has done all the work that it was given so far
 * @stream:       see above; it may be capturing
 * @out_sequence: the publication's number; 0 if that is assigned later, see below; may be NULL
 *
 * The publication comes after earlier ones by other streams of this process. If the call is
 * captured into a graph, each launch publishes once, and a host function takes the number during
 * the launch. From then on, every gpushare_publish() of that buffer in this process takes its
 * number in that way, and *@out_sequence is 0.
 *
 * Threads: safe; threads that publish one buffer do so one after the other.
 * Errors:  GPUSHARE_E_DENIED (another process publishes it: gpushare_explain() says which),
 *          _E_READ_ONLY, _E_OWNER_GONE (the name is gone), _E_INVALID (host_only), _E_CUDA,
 *          _E_NO_MEMORY, _E_FORKED, _E_TIMED_OUT (see above), _E_NOT_SUPPORTED (captured, or by the
 *          driver, without stream memory operations); the first call also _E_NO_REGISTRY, _E_LIMIT
 * Source:  CUDA Driver API, cuStreamWriteValue64, cuStreamWaitValue64, cuMemHostRegister,
 *          cuLaunchHostFunc.
 */
int gpushare_publish(struct gpushare_buffer *buffer, void *stream, uint64_t *out_sequence);

/**
 * gpushare_publish_host() - publish, now, the bytes that the CPU has written
 *
 * Waits for all publications that streams of this process were given before. Don't call it in a
 * host function of CUDA: publications that it waits for may come after that function.
 *
 * The rest as gpushare_publish().
 */
int gpushare_publish_host(struct gpushare_buffer *buffer, uint64_t *out_sequence);

/**
 * gpushare_acquire() - let the stream wait for a publication before it goes on
 * @at_least: number of the publication; a later one ends the wait, too
 *
 * If this process neither is a consumer nor publishes, the call makes it one, as gpushare_join()
 * does, unless the buffer was attached as passive. If the call is captured into a graph, each
 * launch waits for @at_least.
 *
 * Errors:  GPUSHARE_E_OWNER_GONE (that publication will not come), _E_LIMIT (no room for another
 *          consumer), and as gpushare_publish()
 * Source:  CUDA Driver API, cuStreamWaitValue64, cuStreamWaitEvent, cuEventQuery.
 */
int gpushare_acquire(struct gpushare_buffer *buffer, void *stream, uint64_t at_least);

/**
 * gpushare_acquire_host() - wait on the CPU for a publication
 * @timeout_ms:   milliseconds; 0: only look; negative: no limit
 * @out_sequence: the latest number, @at_least or more; may be NULL
 *
 * Spins for some 50 us, then sleeps, at most a millisecond at a time. On return, the published data
 * is in the buffer's memory. How to read it there is up to the caller.
 *
 * Errors:  as gpushare_acquire(), and GPUSHARE_E_TIMED_OUT
 */
int gpushare_acquire_host(struct gpushare_buffer *buffer, uint64_t at_least, int timeout_ms,
			  uint64_t *out_sequence);

/**
 * gpushare_release() - when the stream gets here, this process is done with numbers up to @sequence
 *
 * The release comes after earlier ones by other streams of this process. If a later number was
 * released already, the call has no effect.
 *
 * Errors:  GPUSHARE_E_INVALID (this process has not joined), _E_RANGE (neither published nor waited
 *          for), _E_TIMED_OUT (see above: nothing was released; call again), _E_CUDA, _E_FORKED
 */
int gpushare_release(struct gpushare_buffer *buffer, void *stream, uint64_t sequence);

/** gpushare_release_host() - this process is done with numbers up to @sequence; errors as above */
int gpushare_release_host(struct gpushare_buffer *buffer, uint64_t sequence);

/**
 * gpushare_reclaim() - the stream waits until every process that joined has released @sequence
 *
 * After that wait the publisher may overwrite what it published as @sequence or before. A process
 * that joins after this call begins with a later number. If no process has joined, the stream
 * doesn't wait.
 *
 * Errors:  as gpushare_publish()
 */
int gpushare_reclaim(struct gpushare_buffer *buffer, void *stream, uint64_t sequence);

/** gpushare_reclaim_host() - the same on the CPU; @timeout_ms as gpushare_acquire_host() */
int gpushare_reclaim_host(struct gpushare_buffer *buffer, uint64_t sequence, int timeout_ms);

/**
 * gpushare_join() - become a consumer, for which the publisher waits
 * @out_first: nothing from this number on is reclaimed before this process releases it; may be NULL
 *
 * If this process has joined already, @out_first is the number after the last that it released. At
 * most 240 processes can join a buffer.
 *
 * Errors:  GPUSHARE_E_LIMIT, and as gpushare_acquire()
 */
int gpushare_join(struct gpushare_buffer *buffer, uint64_t *out_first);

/**
 * gpushare_leave() - end gpushare_join(): the publisher no longer waits for this process
 *
 * Errors:  those of a first call on the buffer. Even after _E_TIMED_OUT and _E_NO_REGISTRY this
 *          process is no longer a consumer; its next request tells the registry.
 */
int gpushare_leave(struct gpushare_buffer *buffer);

/** gpushare_sequence() - the number published last; 0: none. Errors: those of a first call on the
 * buffer */
int gpushare_sequence(struct gpushare_buffer *buffer, uint64_t *out_published);

/** gpushare_order_status() - GPUSHARE_OK: more may be published; GPUSHARE_E_OWNER_GONE: no more
 * will be published, and streams that waited for more were released. Errors: as
 * gpushare_sequence() */
int gpushare_order_status(struct gpushare_buffer *buffer);

/** gpushare_ordering() - how this process orders the buffer or, if it used no stream, how the
 * publisher does; no registry call. NONE before the first call above */
enum gpushare_ordering gpushare_ordering(struct gpushare_buffer *buffer);

/** gpushare_ordering_text() - an ordering in a word; never NULL */
const char *gpushare_ordering_text(enum gpushare_ordering ordering);

/** gpushare_status_text() - a status in a few words; never NULL */
const char *gpushare_status_text(int status);

/** gpushare_explain() - a sentence that explains this thread's last failure; "" if none; never
 * NULL */
const char *gpushare_explain(void);

/** gpushare_version() - of the library that is loaded, e.g. "0.1.0" */
const char *gpushare_version(void);

#ifdef __cplusplus
}
#endif

#endif
