/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_H
#define GPUSHARE_H
/*
 * gpushare: GPU buffers with names, across processes, without a copy.
 *
 * Every call returns GPUSHARE_OK or a negative enum gpushare_status and sets its out_ arguments
 * only on success. gpushare_explain() gives the sentence behind the last failure of this thread:
 * the thing, the cause and the next step. Calls are safe from any thread and need no current CUDA
 * context; what was current before is current afterwards. After fork() a child must open a session
 * of its own: calls on an inherited one answer GPUSHARE_E_FORKED. A thread is not cancelled in a call,
 * but behind it; only gpushare_watch_next() and gpushare_event_wait_host() are cancelled while they wait.
 * The time limit of a call covers its wait for other threads of the session.
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
#define GPUSHARE_COMMAND_MAX 63 /* bytes kept of the owner's command name */
#define GPUSHARE_TAGS_MAX 4	/* tags of a buffer */
#define GPUSHARE_TAG_KEY_MAX 31 /* bytes, without the final NUL */
#define GPUSHARE_TAG_VALUE_MAX 127
#define GPUSHARE_COUNTS_MAX 32 /* kinds of one sort that a registry counts */

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

/* X(name, value, text): what the memory is and how it travels */
#define GPUSHARE_BACKINGS(X) \
	X(IPC, 1, "ipc")     /* untouched cudaMalloc memory, by its CUDA IPC handle */ \
	X(VMM, 2, "vmm")     /* cuMemCreate memory, by its exported file descriptor */ \
	X(HOST, 3, "host")   /* the host's, by its descriptor, at one address for CPU and GPU */ \
	X(EVENT, 4, "event") /* no memory but a named event, by its CUDA IPC handle */

enum gpushare_backing {
#define X(name, value, text) GPUSHARE_BACKING_##name = value,
	GPUSHARE_BACKINGS(X)
#undef X
};

/* X(name, value, text): how a buffer is made */
#define GPUSHARE_FLAGS(X) \
	X(KEEP, 1, "keep")	   /* stays after its owner frees it, exits or is killed */ \
	X(READONLY, 2, "readonly") /* other processes map it for reading only */ \
	X(VMM, 4, "vmm")	   /* cuMemCreate memory; the first two ask for that too */ \
	X(UNIFIED, 8, "unified")   /* the host's memory, at one address for CPU and GPU */ \
	X(STAGED, 16, "staged")	   /* no other process sees the name before gpushare_commit() */

enum gpushare_flag {
#define X(name, value, text) GPUSHARE_FLAG_##name = value,
	GPUSHARE_FLAGS(X)
#undef X
};

/* X(name, value, text): what became of an attached buffer's name */
#define GPUSHARE_STATES(X) \
	X(SHARED, 1, "shared")	     /* its owner has it, under its name */ \
	X(KEPT, 2, "kept")	     /* its owner has gone, and it was to be kept */ \
	X(WITHDRAWN, 3, "withdrawn") /* nobody has the name; the memory stays until you detach */ \
	X(REPLACED, 4, "replaced")   /* the same, and the name is another buffer's now */

enum gpushare_state {
#define X(name, value, text) GPUSHARE_STATE_##name = value,
	GPUSHARE_STATES(X)
#undef X
};

/* X(name, value, text): what the CPU is to do with the memory */
#define GPUSHARE_ACCESSES(X) X(READ, 1, "read") X(WRITE, 2, "write")

enum gpushare_access {
#define X(name, value, text) GPUSHARE_##name = value,
	GPUSHARE_ACCESSES(X)
#undef X
};

/* X(name, value, text): how the CPU's loads and stores of mapped memory travel */
#define GPUSHARE_CACHINGS(X) \
	X(WRITE_COMBINED, 1, "write-combined") /* stores in order are fast, loads slow */ \
	X(CACHED, 2, "cached")

enum gpushare_caching {
#define X(name, value, text) GPUSHARE_##name = value,
	GPUSHARE_CACHINGS(X)
#undef X
};

/*
 * X(name, value, text): what a watcher is told. The buffer's record is as it is after that; what has
 * gone, as it was.
 */
#define GPUSHARE_NOTICES(X) \
	X(SHARE, 1, "share")	   /* it has the name now: new, adopted, or its owner is back */ \
	X(ATTACH, 2, "attach")	   /* one process more, or once more */ \
	X(DETACH, 3, "detach")	   /* by a detach or that process's end */ \
	X(PUBLISH, 4, "publish")   /* at most once a second: the latest sequence, and the rate */ \
	X(WITHDRAW, 5, "withdraw") /* its owner took the name back: it is freed */ \
	X(UNLINK, 6, "unlink")	   /* somebody took the name away */ \
	X(DEFERRED, 7, "deferred") /* freed, and held for those who have it attached */ \
	X(OWNER_GONE, 8, \
	  "owner-gone")		/* its owner ended, or freed what is kept (KEEP) and stays */ \
	X(EXPIRE, 9, "expire")	/* kept, and its ttl_s is over */ \
	X(REMOVE, 10, "remove") /* what had no name or owner any more: replaced, lost, or freed */ \
	X(LOST, 100, "lost")	/* so many notices were missed; about no buffer */ \
	X(RESTART, 101, "restart") /* another registry: list again what there is; about no buffer */

enum gpushare_notice_kind {
#define X(name, value, text) GPUSHARE_NOTICE_##name = value,
	GPUSHARE_NOTICES(X)
#undef X
};

/* X(name, value, text): what carries the order of a buffer between GPUs */
#define GPUSHARE_ORDERINGS(X) \
	X(NONE, 0, "none") /* nothing was published, or waited for, so far */ \
	X(HOST, 1, "host") /* the CPU's loads and stores alone */ \
	X(HOST_FUNCTION, 2, \
	  "host-functions") /* the CPU, called by streams: a GPU without 64-bit stream memory operations */ \
	X(STREAM, 3, "stream-memory-operations")

enum gpushare_ordering {
#define X(name, value, text) GPUSHARE_ORDERING_##name = value,
	GPUSHARE_ORDERINGS(X)
#undef X
};

struct gpushare_session; /* a connection to the registry, and the lease on all that is shared */
struct gpushare_buffer;	 /* a named buffer, mapped into this process */
struct gpushare_map;	 /* a buffer's memory at an address of the CPU's */
struct gpushare_mirror;	 /* a pinned host copy of a part of one */
struct gpushare_event;	 /* a named event: what one process records, others wait for */
struct gpushare_watch;	 /* a connection that is told what happens to buffers */

/** struct gpushare_open_options - zero, or NULL in its place, means the default everywhere */
struct gpushare_open_options {
	const char *directory; /* of the registry; default $GPUSHARE_DIR and so on, see README.md */
	unsigned int timeout_ms; /* for each registry call; default $GPUSHARE_TIMEOUT_MS or 1000 */
	int no_autostart;	 /* fail rather than start a registry where none runs */
};

struct gpushare_attach_options {
	unsigned int wait_ms; /* how long to wait for the name to appear; 0: don't */
	int same_address;     /* at the owner's address, or GPUSHARE_E_ADDRESS_TAKEN: pointers that
			       * the owner put into the buffer hold here too. For vmm buffers; of an
			       * adopted one it is the address that it was made at */
	int prefer_same_address; /* the same, but at another one where that is taken */
	int on_device; /* map it for `device`, by peer access where it is on another GPU; 0: for its
			* own GPU, or where that is not visible here for the current context's
			* device, or 0 without one */
	int device;    /* with on_device: CUDA ordinal in this process; -1: as without one */
	int passive;   /* gpushare_acquire() does not make this process a consumer whom those who
		      * publish wait for: see gpushare_join() */
	int host_only; /* without CUDA: for gpushare_map(), gpushare_copy_to() and their like. Of
			* vmm buffers; gpushare_pointer() is 0, gpushare_device() -1. Not with
			* same_address or on_device */
	int read_only; /* for reading, to which the right to read suffices: see gpushare_share_with().
			* Else the right to write is wanted as well */
};

/** struct gpushare_alloc_options - zero, or NULL in its place, means the default but for device */
struct gpushare_alloc_options {
	int device; /* CUDA ordinal in this process; -1 (NULL: too) for the current context's
			 * device, or 0 without one */
	uint32_t
	    flags; /* of enum gpushare_flag; KEEP, READONLY and VMM ask for cuMemCreate memory */
	uint32_t ttl_s; /* with KEEP: seconds to stay after its owner has gone; 0: until removed */
	int adopt;	/* with KEEP: what is kept of that name, size and GPU, contents and all */
	uint32_t mode;	/* these two as in gpushare_share_options; with adopt: 0 and NULL leave them
			 * as they are */
	const char *group;
};

/** struct gpushare_share_options - zero, or NULL in its place, means the default everywhere */
struct gpushare_share_options {
	uint32_t mode;	   /* who may read and write it, bits as a file's, of 0666; 0: 0600 */
	const char *group; /* whom the middle digit is about: a name or number, of a group that the
			    * caller is in; NULL: the caller's own */
	int staged;	   /* as GPUSHARE_FLAG_STAGED: see gpushare_commit(); not of events */
};

/** struct gpushare_event_options - zero, or NULL in its place, means the default everywhere */
struct gpushare_event_options {
	unsigned int wait_ms; /* how long to wait for the name to appear; 0: don't */
	int on_device; /* open it for `device`; 0: for its owner's GPU, or where that is not visible
			* here for the current context's device, or 0 without one */
	int device;    /* with on_device: CUDA ordinal in this process; -1: as without one */
};

/** struct gpushare_map_options - zero, or NULL in its place, means the default everywhere */
struct gpushare_map_options {
	int need_coherent; /* rather GPUSHARE_E_NOT_SUPPORTED than a map that wants flushing */
};

/** struct gpushare_map_info - how a map was made, and what that means for its use */
struct gpushare_map_info {
	const char *backend; /* "dma-buf", "vulkan" or "host"; a string that stays */
	enum gpushare_caching caching;
	int coherent;	  /* 0: gpushare_map_flush() and gpushare_map_invalidate() are needed */
	size_t atom_size; /* bytes that those two work on at once; 1 where it is coherent */
};

/** struct gpushare_tag - what a buffer is said to be: "dtype", "f16" */
struct gpushare_tag {
	char key[GPUSHARE_TAG_KEY_MAX + 1];	/* 1 or more of [A-Za-z0-9._-] */
	char value[GPUSHARE_TAG_VALUE_MAX + 1]; /* no control characters */
};

/** struct gpushare_info - a buffer as the registry knows it; sizes and offsets in bytes */
struct gpushare_info {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;  /* (name, generation) is the identity; never used again */
	uint64_t size;	      /* as requested */
	uint64_t base_offset; /* of the buffer in its allocation */
	uint64_t base_size;   /* of that allocation: the GPU memory that is really held */
	unsigned char device_uuid[GPUSHARE_UUID_SIZE];
	enum gpushare_backing backing;
	uint32_t owner_uid;
	int32_t owner_pid; /* as the registry's pid namespace numbers it; 0: not visible there */
	uint64_t owner_started; /* clock ticks after boot, field 22 of /proc/PID/stat */
	char owner_command[GPUSHARE_COMMAND_MAX + 1];
	uint32_t attachers; /* processes' attachments now */
	uint64_t created_unix_ns;
	uint32_t flags;	     /* of enum gpushare_flag: KEEP, READONLY */
	uint32_t ttl_s;	     /* with KEEP: seconds to stay after its owner has gone; 0: no end */
	uint32_t ttl_left_s; /* of those, once the owner has gone */
	int owner_alive;     /* 0: kept, and its owner has freed it or ended; owner_* say who */
	int deferred;	     /* 1: freed by its owner, who holds it for those who are attached */
	int missing; /* 1: of before the registry's restart, its memory not brought back so far */
	uint64_t sequence; /* that was published last, see gpushare_publish(); 0: nothing so far */
	enum gpushare_ordering ordering; /* how who publishes it does so */
	uint32_t mode;			 /* who may have it: see gpushare_share_options */
	uint32_t owner_gid;		 /* 2^32 - 1: of no group */
	int isolated; /* 1: whoever attaches maps nothing but this allocation; 0: a cudaMalloc
				  * allocation that is no multiple of 2 MiB, whose last block others share */
	uint32_t tag_count;
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX];
};

/** struct gpushare_holder - a process that has a buffer attached, once for each connection */
struct gpushare_holder {
	int32_t pid; /* as the registry's pid namespace numbers it; 0: not visible there */
	uint32_t uid;
	uint64_t started; /* clock ticks after boot, field 22 of /proc/PID/stat */
	char command[GPUSHARE_COMMAND_MAX + 1];
	uint32_t count; /* attachments */
	int own;	/* 1: the owner's own process, not among gpushare_info.attachers */
};

/** struct gpushare_count - how many of one kind */
struct gpushare_count {
	char what[24];
	uint64_t count;
	uint64_t bytes; /* where it is of memory */
};

/** struct gpushare_registry_info - what a registry has to do, all its clients together; of one that
 * serves several users, who is neither root nor the registry's own user is told of what he may see, and
 * of what he has and asks for himself */
struct gpushare_registry_info {
	uint64_t names;
	uint64_t attachments;
	uint64_t connections;
	uint64_t waiters;  /* requests that wait for a name */
	uint64_t requests; /* since it was started */
	uint64_t deferred; /* buffers that their owners have freed and hold for who is attached */
	uint64_t started_unix_ns;
	uint64_t deferred_bytes; /* of those */
	uint64_t kept_bytes;	 /* of all that is to be kept, whether its owner lives or not */
	uint64_t kept_limit;	 /* bytes; --keep-limit of gpushare-registry, or user_kept_bytes */
	uint64_t descriptors;	 /* file descriptors that it holds for memory */
	uint64_t hidden;	 /* requests about what is there, of users who may not see it */
	char version[32];	 /* of the registry; "": it is older than that it says so */
	int32_t pid;
	uint32_t
	    lock_held_max_us; /* so long at most it let others wait for one thing that it did */
	/* Up to the first whose `what` is empty. */
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
	int32_t pid;	  /* of the process that did it; 0: none, or not visible to the registry */
	uint64_t serial;  /* counts all notices of one registry, of other names too */
	uint64_t unix_ns; /* when */
	uint64_t lost;	  /* LOST: how many notices were missed, of whatever names */
	uint64_t published;	   /* PUBLISH: the latest sequence */
	uint64_t rate;		   /* PUBLISH: publications a second */
	struct gpushare_info info; /* zero for LOST and RESTART; a DETACH from what has gone has its
				    * name and generation only */
};

/**
 * gpushare_open() - connect to the registry, starting it where none runs
 * @options: NULL for defaults
 * @out_session: release with gpushare_close()
 *
 * The connection is the lease: when it ends, by gpushare_close() or because the process ends by
 * any means, what was shared through it is withdrawn and what was attached is released.
 * No thread is made. No CUDA call is made.
 *
 * Errors:  GPUSHARE_E_NO_REGISTRY, _E_TIMED_OUT, _E_PROTOCOL, _E_DENIED (the directory is another
 *          user's or open to others), _E_NO_MEMORY
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_session is untouched then.
 */
int gpushare_open(const struct gpushare_open_options *options,
		  struct gpushare_session **out_session);

/**
 * gpushare_close() - end a session: detach and free every buffer of it, withdraw its names
 * @session: NULL is allowed; not usable afterwards, nor are its buffers and mirrors
 *
 * Mirrors that are still open are dropped: what was not written back is lost.
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
 * Call gpushare_free() before freeing the memory. Memory of cuMemCreate must have been made with
 * requestedHandleTypes CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, and the bytes must lie in one
 * mapping; its backing is vmm, and whoever is attached keeps it when the owner goes. A part of a buffer
 * that this session made with GPUSHARE_FLAG_READONLY is for others to read alone, too. Who attaches a
 * cudaMalloc allocation maps its 2 MiB blocks whole: see gpushare_info.isolated.
 *
 * Shapes:  flat byte range.
 * Units:   bytes.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  GPUSHARE_E_NAME, _E_INVALID, _E_RANGE, _E_EXISTS (gpushare_explain() says whose),
 *          _E_NOT_SHAREABLE (managed, stream-ordered or host memory; cuMemCreate without that handle
 *          type), _E_NO_REGISTRY, _E_TIMED_OUT, _E_LIMIT, _E_NO_DRIVER, _E_CUDA
 * Source:  CUDA Driver API, cuIpcGetMemHandle, cuMemGetAddressRange, cuMemRetainAllocationHandle,
 *          cuMemExportToShareableHandle.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_buffer is untouched then.
 */
int gpushare_share(struct gpushare_session *session, const char *name, uint64_t pointer,
		   size_t size, struct gpushare_buffer **out_buffer);

/**
 * gpushare_share_with() - gpushare_share(), and who else may have it
 * @options: NULL is gpushare_share()
 *
 * Rights are as with files: the first of owner, group and others that fits a user decides, and root may
 * all. Who may neither read nor write does not see the name. Who may read sees it, and attaches it with
 * gpushare_attach_options.read_only; who may read and write attaches it, and publishes. Its owner's user
 * alone unlinks and tags it. Other users are there where the registry serves them: gpushare-registry
 * --system. What is to be read alone is mapped so by this library. The driver has no word for it: a
 * program that goes about it by itself can write to memory that it may read. Memory of cudaMalloc can't
 * be mapped so, and is refused to who may but read.
 *
 * Errors:  as gpushare_share(), and GPUSHARE_E_INVALID (such a mode), _E_NOT_FOUND (no such group),
 *          _E_DENIED (the caller is not in it)
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_buffer is untouched then.
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
 * The GPU gives whole blocks of 2 MiB, so that the buffer is isolated (gpushare_info.isolated and
 * base_size); where those don't fit, exactly @size. gpushare_size() is @size.
 *
 * The rest as gpushare_share(); GPUSHARE_E_NO_MEMORY when the GPU has no room.
 *
 * Source:  CUDA Driver API, cuMemAlloc.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_buffer is untouched then.
 */
int gpushare_alloc(struct gpushare_session *session, const char *name, int device, size_t size,
		   struct gpushare_buffer **out_buffer);

/**
 * gpushare_alloc_with() - allocate device memory, give it a name, and say how it is to live
 * @options: NULL is gpushare_alloc() with device -1
 *
 * GPUSHARE_FLAG_KEEP: gpushare_free(), gpushare_close() and the end of this process unmap it here,
 * and the registry keeps it, for whoever attaches, until gpushare_unlink() ('gpushare rm'), the end
 * of its ttl_s, or a new buffer under its name: which replaces it, as a new generation, where the
 * owner has gone, or with adopt becomes its owner: gpushare_was_adopted() tells. An adopted buffer
 * is mapped at the address that it was made at, where that is free; to same_address of others that
 * stays its address. What is kept at most is the registry's
 * affair (--keep-limit); memory comes back when the last process that maps it lets go.
 * GPUSHARE_FLAG_READONLY: other processes map it for reading alone. Their calls of this library
 * answer GPUSHARE_E_READ_ONLY, their own copies into it are refused by the driver, and a kernel's
 * store ends that process's CUDA context (CUDA_ERROR_ILLEGAL_ADDRESS), nobody else's.
 * GPUSHARE_FLAG_VMM: cuMemCreate memory without any of that.
 * Where other GPUs reach the one that it is on, a session that makes or attaches cuMemCreate memory
 * keeps one granule there (2 MiB) until it is closed: without it the driver joins the GPUs anew for
 * the first buffer each time, for 1 to 4 ms.
 * GPUSHARE_FLAG_UNIFIED: the host's memory, pinned, which the CPU and every GPU reach at one address:
 * gpushare_pointer() is good for both, and is the same in every process that attaches it. Alone or
 * with KEEP, READONLY; @device says whose NUMA node. Memory of cuMemCreate there, or where the driver
 * makes none, a memfd that is registered in each process. What the GPU reads goes over the bus.
 *
 * GPUSHARE_FLAG_STAGED: the name is taken, and no other process sees it before gpushare_commit().
 * What ends before that is gone, KEEP or not. It takes no place of something that is kept: such a
 * name is taken (_E_EXISTS). Not with adopt.
 *
 * Such memory is taken in whole granules (2 MiB): gpushare_info.base_size.
 *
 * Errors:  as gpushare_alloc(), and GPUSHARE_E_INVALID (flags that there are not; ttl_s or adopt
 *          without KEEP; VMM with UNIFIED; STAGED with adopt), _E_LIMIT (what the registry keeps; the sentence
 *          says how to remove some), _E_NOT_SUPPORTED (a driver without cuMemCreate),
 *          _E_ADDRESS_TAKEN (adopted unified memory)
 * Source:  CUDA Driver API, cuMemCreate, cuMemHostRegister, cuMemAddressReserve, cuMemMap,
 *          cuMemSetAccess, cuMemExportToShareableHandle.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_buffer is untouched then.
 */
int gpushare_alloc_with(struct gpushare_session *session, const char *name, size_t size,
			const struct gpushare_alloc_options *options,
			struct gpushare_buffer **out_buffer);

/**
 * gpushare_alloc_array() - gpushare_alloc_with() for @count elements of @element_size bytes
 *
 * Errors:  as gpushare_alloc_with(), and GPUSHARE_E_INVALID where those are 0 bytes or more than a
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
 * Attaching an ipc buffer that this process owns gives the owner's own address; a vmm buffer is
 * mapped anew, and stays when its owner frees it or ends. Attaching the same
 * buffer twice gives the same struct, address and mapping, and counts. A session that does so again
 * and again asks the registry for the first of them only, and only those show in
 * gpushare_info.attachers. One that was made with
 * GPUSHARE_FLAG_READONLY is mapped for reading where another process owns it: ask
 * gpushare_is_read_only(). The GPU is found by its
 * UUID, whatever CUDA_VISIBLE_DEVICES says on either side; where it is not visible here, or with
 * on_device, another GPU of the machine reaches the memory by peer access: GPUSHARE_E_DEVICE where
 * there is none. Unified memory is at its owner's address or not at all, once in a process for
 * however many sessions, and any GPU will do. What is attached already stays as it is mapped: see
 * gpushare_device(). With host_only no CUDA call is made, now or later; an attachment with it and
 * one without are two, also in one session. Of each attached vmm or unified buffer one file
 * descriptor is held, close-on-exec, numbered 256 or more where there is room, and closed in a
 * forked child; a program that closes it can't gpushare_map() a vmm buffer any more, nor give the
 * memory again to a registry that has lost it, and loses nothing else.
 *
 * With read_only gpushare_is_read_only() is 1: a vmm or unified buffer is mapped so, of memory of
 * cudaMalloc only this library's own writes are refused. An attachment with it and one without are two,
 * but for unified memory, which is mapped once: GPUSHARE_E_READ_ONLY where it can't be written here.
 *
 * Shapes:  flat byte range of gpushare_size() bytes.
 * Units:   bytes; milliseconds.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  GPUSHARE_E_NAME, _E_NOT_FOUND (gpushare_explain() has the last owner), _E_TIMED_OUT, _E_DENIED (gpushare_explain() says whose it is), _E_OWNER_GONE, _E_NO_REGISTRY, _E_DEVICE,
 *          _E_NO_DRIVER, _E_CUDA, _E_LIMIT, _E_NOT_SUPPORTED (a vmm buffer, and the driver or GPU
 *          can't map such; same_address or host_only of another; host_only of unified memory
 *          that is cuMemCreate's), _E_ADDRESS_TAKEN
 * Source:  CUDA Driver API, cuIpcOpenMemHandle, cuMemImportFromShareableHandle, cuMemMap.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_buffer is untouched then.
 */
int gpushare_attach(struct gpushare_session *session, const char *name,
		    const struct gpushare_attach_options *options,
		    struct gpushare_buffer **out_buffer);

/**
 * gpushare_detach() - give back one attachment
 * @buffer: from gpushare_attach(); NULL is allowed. The last detach unmaps and frees the struct.
 *
 * Work on the buffer must have ended: this does not wait for streams.
 *
 * Errors:  GPUSHARE_E_INVALID (the buffer came from share or alloc), _E_FORKED, _E_CUDA
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_detach(struct gpushare_buffer *buffer);

/**
 * gpushare_free() - end what gpushare_share() or gpushare_alloc() began
 * @buffer: NULL is allowed; not usable afterwards
 *
 * The name is withdrawn first; then memory from gpushare_alloc() is freed. What other processes have
 * attached still is held for them (ipc; a vmm buffer outlives its owner by itself), 64 buffers and
 * $GPUSHARE_DEFERRED_FREE bytes of a session at most, the oldest going first: a later gpushare_alloc(),
 * gpushare_share() or gpushare_free() frees it once the last of them has left, a gpushare_alloc()
 * that finds no room frees all of it, and so does gpushare_close(). Memory that was given to
 * gpushare_share() stays the caller's: let the others detach before it is freed. A buffer with
 * GPUSHARE_FLAG_KEEP is unmapped here and stays under its name, without an owner.
 *
 * Errors:  GPUSHARE_E_INVALID (the buffer came from attach), _E_FORKED, _E_CUDA
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_free(struct gpushare_buffer *buffer);

/**
 * gpushare_commit() - show a staged name to everybody, now that its contents and tags are there
 * @buffer: of gpushare_alloc_with() with GPUSHARE_FLAG_STAGED, or gpushare_share_with() and staged;
 *          of others, and of one that was committed before, nothing is done
 *
 * Who waits for the name gets it now. The caller sees to it that what a GPU is to write has been
 * written: a commit waits for no stream. Any thread; asks the registry once.
 *
 * Errors:  GPUSHARE_E_INVALID (not a buffer of the caller's own), _E_NOT_FOUND (the name was taken
 *          away meanwhile), _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT (then it may be seen or not; ask
 *          again)
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_commit(struct gpushare_buffer *buffer);

/**
 * gpushare_unlink() - take a name away; the memory and attachments stay as they are, and what was
 * kept goes when the last of them goes
 * @name: of a buffer that the caller's user owns
 *
 * Errors:  GPUSHARE_E_NAME, _E_NOT_FOUND, _E_DENIED, _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_unlink(struct gpushare_session *session, const char *name);

/**
 * gpushare_tag() - set tags of a buffer, for whoever looks at it
 * @name:  of a buffer that the caller's user owns
 * @tags:  what is set; one with an empty value takes the tag of that key away. All or none.
 * @count: of @tags, up to GPUSHARE_TAGS_MAX
 *
 * Tags stay as long as the name's generation, also when the owner of a kept buffer goes and another
 * adopts it. They are words: nothing is done by them.
 *
 * Errors:  GPUSHARE_E_NAME, _E_NOT_FOUND, _E_DENIED, _E_INVALID (a key or value that can't be, a key
 *          that comes twice), _E_LIMIT (more than GPUSHARE_TAGS_MAX), _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; then no tag was changed.
 */
int gpushare_tag(struct gpushare_session *session, const char *name,
		 const struct gpushare_tag *tags, size_t count);

/**
 * gpushare_tags() - a buffer's tags as they are now; gpushare_buffer_info() has those of when it came
 * @out_tags:  room for GPUSHARE_TAGS_MAX
 * @out_count: of those that were filled in
 *
 * Asks the registry.
 *
 * Errors:  GPUSHARE_E_NOT_FOUND (its name has gone, or is another buffer's), _E_INVALID,
 *          _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; nothing is filled in then.
 */
int gpushare_tags(struct gpushare_buffer *buffer, struct gpushare_tag *out_tags, size_t *out_count);

/**
 * gpushare_holders() - who has a buffer attached
 * @generation: gpushare_info.generation, of what is deferred too; 0: whichever has the name now
 * @visit: called once a connection with @user; anything but 0 ends it
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
 * gpushare_list() - every buffer's name that a pattern matches and the caller may see, in byte order
 * @glob:  fnmatch(3) pattern; NULL for all. '*' matches '/' too.
 * @visit: called once a buffer with @user; anything but 0 ends the listing
 *
 * Names that come or go while the listing runs may or may not be in it; none comes twice.
 *
 * Errors:  GPUSHARE_E_CANCELLED (@visit ended it), _E_INVALID, _E_LIMIT (256 lists of this user wait
 *          for their turn), _E_NO_REGISTRY, _E_TIMED_OUT
 */
int gpushare_list(struct gpushare_session *session, const char *glob,
		  int (*visit)(const struct gpushare_info *info, void *user), void *user);

/**
 * gpushare_list_deferred() - what was freed by its owner and is held for those who have it attached
 *
 * The rest as gpushare_list(), but ordered by generation; a name may come more than once.
 */
int gpushare_list_deferred(struct gpushare_session *session, const char *glob,
			   int (*visit)(const struct gpushare_info *info, void *user), void *user);

/** gpushare_list_events() - named events instead of buffers; the rest as gpushare_list() */
int gpushare_list_events(struct gpushare_session *session, const char *glob,
			 int (*visit)(const struct gpushare_info *info, void *user), void *user);

/**
 * gpushare_stat_registry() - what the session's registry has to do
 * @out_info: filled on success
 *
 * Errors:  GPUSHARE_E_INVALID, _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_info is untouched then.
 */
int gpushare_stat_registry(struct gpushare_session *session,
			   struct gpushare_registry_info *out_info);

/**
 * gpushare_watch() - be told what happens to buffers from now on
 * @session: from gpushare_open(); it may be closed before the watch
 * @glob:    fnmatch(3) pattern for the names; NULL for all. '*' matches '/' too.
 * @out_watch: end with gpushare_watch_close()
 *
 * What happens after this call has returned is told, in order, to every watcher: to each through a
 * socket of its own that the registry never waits for. A watcher that is slow loses the oldest of
 * what waits for it (1024 notices and what the socket takes), and hears how many: LOST. When the registry
 * ends, the watch looks for the next one, and says RESTART when it is there: what happened in between
 * is not told. It starts none itself. No thread is made, and memory is bounded (64 KiB).
 *
 * Three file descriptors are held, close-on-exec. After fork() the child can but close its copy; until
 * it does, calls exec() or ends, the registry has a watcher.
 * While somebody watches, a registry does not leave because it is idle.
 *
 * Threads: safe from any thread; each watch is one thread's at a time. No CUDA call is made.
 * Errors:  GPUSHARE_E_INVALID, _E_FORKED, _E_NO_REGISTRY (an old one, too, tells nothing), _E_DENIED,
 *          _E_TIMED_OUT, _E_LIMIT (file descriptors), _E_NO_MEMORY
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_watch is untouched then.
 */
int gpushare_watch(struct gpushare_session *session, const char *glob,
		   struct gpushare_watch **out_watch);

/**
 * gpushare_watch_next() - the next notice
 * @timeout_ms: how long to wait for one; 0: don't, negative: without an end
 * @out_notice: filled on success
 *
 * Waiting, it takes no CPU time. While no registry runs it waits too.
 *
 * Errors:  GPUSHARE_E_TIMED_OUT (there is none), _E_INVALID, _E_FORKED, _E_PROTOCOL (what listens
 *          there is no registry, or another version's; the next call connects anew), _E_DENIED
 *          (another user's), _E_IO
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_notice is untouched then.
 */
int gpushare_watch_next(struct gpushare_watch *watch, int timeout_ms,
			struct gpushare_notice *out_notice);

/**
 * gpushare_watch_fd() - what poll(2) and epoll(7) may wait for POLLIN on; -1 for NULL
 *
 * It stays the same. When it is readable call gpushare_watch_next() with timeout 0, which may answer
 * GPUSHARE_E_TIMED_OUT; nothing else may be done with it.
 */
int gpushare_watch_fd(const struct gpushare_watch *watch);

/** gpushare_watch_close() - end a watch; NULL is allowed; in a forked child its copy alone */
void gpushare_watch_close(struct gpushare_watch *watch);

/** gpushare_notice_text() - a kind of notice in a word; never NULL */
const char *gpushare_notice_text(enum gpushare_notice_kind kind);

/**
 * gpushare_state() - whether a buffer still stands for its name
 * @buffer: any buffer; of interest where it came from gpushare_attach()
 * @out_state: one of GPUSHARE_STATES
 *
 * Asks the registry. Whatever the state, the memory of an attached buffer stays valid until
 * gpushare_detach(): of an ipc buffer within what gpushare_free() says of its owner, and as long as
 * that lives.
 *
 * Threads: safe from any thread; no CUDA call is made, but for what the session is to share again with
 *          a registry that was restarted.
 * Errors:  GPUSHARE_E_INVALID, _E_FORKED, _E_NO_REGISTRY, _E_TIMED_OUT
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_state is untouched then.
 */
int gpushare_state(struct gpushare_buffer *buffer, enum gpushare_state *out_state);

/** gpushare_state_text() - a state in a word; never NULL */
const char *gpushare_state_text(enum gpushare_state state);

/** gpushare_pointer() - the device pointer in this process (a CUdeviceptr); 0 for NULL, host_only */
uint64_t gpushare_pointer(const struct gpushare_buffer *buffer);

/** gpushare_size() - bytes; 0 for NULL */
size_t gpushare_size(const struct gpushare_buffer *buffer);

/** gpushare_device() - the CUDA ordinal of the GPU that it is mapped for here, which is the buffer's
 * own unless it was attached for another; -1 for NULL, host_only */
int gpushare_device(const struct gpushare_buffer *buffer);

/** gpushare_is_read_only() - 1: mapped for reading alone in this process; 0 for NULL */
int gpushare_is_read_only(const struct gpushare_buffer *buffer);

/** gpushare_was_adopted() - 1: gpushare_alloc_with() found it kept, contents and all; 0 for NULL */
int gpushare_was_adopted(const struct gpushare_buffer *buffer);

/** gpushare_buffer_info() - the buffer's record as it was at share or attach; no registry call */
int gpushare_buffer_info(const struct gpushare_buffer *buffer, struct gpushare_info *out_info);

/**
 * gpushare_read() - stream device memory to the host through two pinned buffers
 * @buffer: any buffer
 * @offset, @length: bytes, within the buffer; a @length of 0 does nothing
 * @sink: called in order with host memory that is valid during the call; anything but 0 ends it
 *
 * The copy of one chunk runs while @sink has the one before. Of a host_only buffer the CPU copies,
 * through a map as gpushare_map() makes it, with its errors; so do the three calls below.
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
 * The rest as gpushare_read(), and GPUSHARE_E_READ_ONLY, before any CUDA call. Bytes before another
 * failure may have been written.
 */
int gpushare_write(struct gpushare_buffer *buffer, size_t offset, size_t length,
		   int (*source)(void *data, size_t size, void *user), void *user);

/**
 * gpushare_copy_from() - device to host, synchronous; errors as gpushare_read()
 *
 * As cuMemcpy: what was given to the GPU before is waited for as that does. But while this process
 * has the buffer mapped (gpushare_map()), a copy of up to 4 KiB, or 256 KiB of gpushare_copy_to(),
 * is the CPU's own, through that: it waits for no stream. So wait for work that writes the buffer
 * first; and only work that is launched after a gpushare_copy_to() is sure to see it.
 */
int gpushare_copy_from(struct gpushare_buffer *buffer, size_t offset, void *host, size_t length);

/** gpushare_copy_to() - host to device; errors as gpushare_write(), the rest as above */
int gpushare_copy_to(struct gpushare_buffer *buffer, size_t offset, const void *host,
		     size_t length);

/**
 * gpushare_map() - let the CPU load from and store to the GPU's memory of a buffer
 * @buffer: a vmm or unified buffer of any process, attached, host_only too, or this process's own
 * @offset, @length: bytes, within the buffer, at any alignment; @length 1 or more
 * @access: GPUSHARE_READ, GPUSHARE_WRITE or both, of enum gpushare_access
 * @out_map: release with gpushare_unmap()
 *
 * No copy: what is stored is in the GPU's memory, and what is there is what is loaded. The memory
 * belongs to the map too: it stays when its owner frees it or ends, and when the buffer is detached
 * or its session closed before the map. Maps of one buffer share one mapping of all of it. That of a
 * buffer that is read-only here is read-only: a store ends in SIGSEGV.
 *
 * Of unified memory the map is that itself, at the address that it has ("host"), cached and coherent,
 * read-only where the buffer is. host_only it is there if that is free in this process, else at
 * another one; CUDA can then no more attach it here until the map is gone.
 *
 * Made by dma-buf where the driver offers that (and CUDA has the buffer mapped here), else by
 * Vulkan, for which libvulkan.so.1 and a Vulkan driver of that GPU must be there, and the GPU's
 * memory visible to the CPU (its BAR). Vulkan takes 0.3 to 0.8 s to start, with the process's first
 * map, and stays; the first map also proves on memory of its own that stores arrive. Where neither
 * works the answer is GPUSHARE_E_NOT_SUPPORTED with the reason: a mirror (gpushare_mirror_open) works
 * wherever CUDA does.
 *
 * Work that is given to the GPU after a store (and gpushare_map_flush(), which also completes
 * write-combined stores) sees it; what a kernel that runs already sees is its own affair. The CPU
 * sees what the GPU wrote once that work has ended (and gpushare_map_invalidate()). A copy to the GPU from
 * pageable memory may return before it has: synchronize, too.
 *
 * After fork() the mapping is the parent's alone: the address is not there in the child, calls on
 * the map answer GPUSHARE_E_FORKED, and so does every gpushare_map() in the child of a process that
 * has called it: Vulkan does not survive a fork. exec() makes a new start.
 *
 * Nor may the exit handler of NVIDIA's Vulkan driver run in a forked child: it would crash, and leave
 * the parent standing at its own exit for ever. So once Vulkan was started here, exit() in a child,
 * or the return from its main(), ends it after the handlers that were registered since: its exit code
 * stands and its streams are flushed, but handlers and static destructors from before the first map
 * do not run there. For the same reason the library stays loaded then, whoever calls dlclose(). A
 * child that is forked while another thread makes the first map of a GPU should end by _exit().
 *
 * Shapes:  flat byte range.
 * Units:   bytes.
 * Threads: safe from any thread; needs no CUDA context, and no CUDA for a host_only buffer.
 * Errors:  GPUSHARE_E_INVALID, _E_RANGE, _E_READ_ONLY, _E_NOT_SUPPORTED (an ipc buffer; no Vulkan
 *          and no dma-buf; a GPU that does not show its memory to the CPU), _E_NO_MEMORY (the GPU's
 *          window for the CPU is full, or the CPU's memory), _E_LIMIT (file descriptors), _E_CUDA,
 *          _E_FORKED
 * Source:  Vulkan, VK_KHR_external_memory_fd, vkMapMemory; CUDA Driver API,
 *          cuMemGetHandleForAddressRange.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_map is untouched then.
 */
int gpushare_map(struct gpushare_buffer *buffer, size_t offset, size_t length, unsigned int access,
		 struct gpushare_map **out_map);

/**
 * gpushare_map_with() - gpushare_map(), and what it must be like
 * @options: NULL for defaults
 */
int gpushare_map_with(struct gpushare_buffer *buffer, size_t offset, size_t length,
		      unsigned int access, const struct gpushare_map_options *options,
		      struct gpushare_map **out_map);

/** gpushare_map_data() - the first byte, at @offset of the buffer; NULL for NULL, in a forked child */
void *gpushare_map_data(const struct gpushare_map *map);

/** gpushare_map_size() - bytes: the length that was asked for; 0 for NULL */
size_t gpushare_map_size(const struct gpushare_map *map);

/** gpushare_map_info() - how it was made; errors: GPUSHARE_E_INVALID */
int gpushare_map_info(const struct gpushare_map *map, struct gpushare_map_info *out_info);

/**
 * gpushare_map_flush() - what the CPU has stored in that part is on its way to the GPU
 * @offset, @length: bytes, within the map
 *
 * Where the memory is coherent this only waits for the CPU's own buffers, which takes nanoseconds.
 *
 * Errors:  GPUSHARE_E_INVALID, _E_RANGE, _E_NO_MEMORY, _E_FORKED
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_map_flush(struct gpushare_map *map, size_t offset, size_t length);

/** gpushare_map_invalidate() - the CPU's next loads of that part see what the GPU has written;
 * nothing where the memory is coherent. The rest as gpushare_map_flush() */
int gpushare_map_invalidate(struct gpushare_map *map, size_t offset, size_t length);

/**
 * gpushare_unmap() - give back one map; the last of a buffer's unmaps it
 * @map: NULL is allowed; not usable afterwards, nor is its address
 *
 * Errors:  GPUSHARE_E_FORKED: the map is the parent's, and stays
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_unmap(struct gpushare_map *map);

/**
 * gpushare_mirror_open() - a copy of a part of a buffer in pinned host memory
 * @buffer: any buffer; what a mirror is open of stays mapped after its detach or free until the
 *          mirror goes, too
 * @offset, @length: bytes, within the buffer; a @length of 0 is allowed and copies nothing
 * @access: of enum gpushare_access: READ fills the copy now, WRITE writes it back when it is closed.
 *          WRITE without READ: the copy begins with any bytes, so write them all
 * @out_mirror: end with gpushare_mirror_close() or gpushare_mirror_drop()
 *
 * One copy by the GPU each way, ordered as cuMemcpy is. Pinning takes longer than copying: the
 * session keeps the pinned memory of closed mirrors for the next ones, never more than its mirrors
 * had at one time, until gpushare_close().
 *
 * Threads: safe; each mirror is one thread's at a time.
 * Errors:  GPUSHARE_E_RANGE, _E_INVALID (no access or another), _E_READ_ONLY (WRITE of a buffer that
 *          is read-only here), _E_NO_MEMORY (the sentence has the size: mirror it in parts),
 *          _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuMemHostAlloc, cuMemcpyDtoH, cuMemcpyHtoD.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_mirror is untouched then.
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
 * When this returns the bytes are there, for whatever any process does afterwards.
 *
 * Errors:  GPUSHARE_E_INVALID (the mirror is not for WRITE), _E_CUDA, _E_FORKED
 */
int gpushare_mirror_sync(struct gpushare_mirror *mirror);

/**
 * gpushare_mirror_close() - write the copy back if it is for WRITE, and end the mirror
 * @mirror: NULL is allowed; not usable afterwards unless this failed
 *
 * Errors:  GPUSHARE_E_CUDA, _E_FORKED: the mirror stays open and its bytes stay readable, also when
 *          a context that the program made for the buffer has been destroyed. Try again, save them,
 *          or gpushare_mirror_drop() it.
 */
int gpushare_mirror_close(struct gpushare_mirror *mirror);

/** gpushare_mirror_drop() - end a mirror without writing back; NULL is allowed */
void gpushare_mirror_drop(struct gpushare_mirror *mirror);

/** gpushare_mirror_scope_end() - gpushare_mirror_drop() of *@mirror: what a scope's end calls */
void gpushare_mirror_scope_end(struct gpushare_mirror **mirror);

/*
 * In C with GNU cleanup, a mirror that ends with its scope:
 *
 *	gpushare_mirror_scope struct gpushare_mirror *mirror = NULL;
 *
 * It is dropped there, so that an early return publishes nothing half done: say
 * gpushare_mirror_sync() for what is to be written back, which also tells whether it was. Don't
 * close or drop it yourself.
 */
#define gpushare_mirror_scope __attribute__((cleanup(gpushare_mirror_scope_end)))

/**
 * gpushare_event_create() - make a CUDA event that other processes open by name
 * @session: from gpushare_open()
 * @name:    1..GPUSHARE_NAME_MAX bytes of [A-Za-z0-9._/-], the first not '-'; buffers and events have their names in
 *           one place, where each is taken once
 * @device:  CUDA ordinal in this process; -1 for the current context's device, or 0 without one
 * @flags:   0, or CUDA's own: CU_EVENT_DISABLE_TIMING, and at will CU_EVENT_BLOCKING_SYNC and
 *           CU_EVENT_INTERPROCESS, which is added anyway. Others without DISABLE_TIMING are refused,
 *           as CUDA refuses them: no event between processes keeps time
 * @out_event: end it with gpushare_event_close()
 *
 * It is an event of the current context where that is of @device, else of the device's primary one,
 * and is recorded on streams of that context alone, as CUDA has it. Of one that was never recorded
 * everything is done. Its name goes as a buffer's does: by gpushare_event_close(), gpushare_close(),
 * gpushare_unlink(), or with the process.
 * gpushare_list_events() and 'gpushare events' list events, gpushare_list() does not.
 *
 * Threads: safe from any thread; needs no current CUDA context; spoils no stream capture.
 * Errors:  GPUSHARE_E_NAME, _E_INVALID (flags, device), _E_EXISTS, _E_NO_MEMORY (4096 such events are
 *          what a process can have), _E_LIMIT, _E_NOT_SUPPORTED, _E_NO_REGISTRY, _E_TIMED_OUT,
 *          _E_NO_DRIVER, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuEventCreate, cuIpcGetEventHandle.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_event is untouched then.
 */
int gpushare_event_create(struct gpushare_session *session, const char *name, int device,
			  unsigned int flags, struct gpushare_event **out_event);

/**
 * gpushare_event_create_with() - the same, and say which users may open it
 * @options: NULL for defaults: this user alone
 *
 * Rights are as with gpushare_share_with(), but that to open an event is to read and to write: CUDA's
 * handle of an event lets whoever has it record as well as wait, so GPUSHARE_E_DENIED is what those get
 * who may only read.
 *
 * Errors:  as gpushare_event_create(), and GPUSHARE_E_INVALID (such a mode), _E_NOT_FOUND (no such
 *          group), _E_DENIED (a group that this process is not in)
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_event is untouched then.
 */
int gpushare_event_create_with(struct gpushare_session *session, const char *name, int device,
			       unsigned int flags, const struct gpushare_share_options *options,
			       struct gpushare_event **out_event);

/**
 * gpushare_event_open() - an event of another process, by name
 * @options: NULL for defaults: its owner's device, no wait
 * @out_event: end it with gpushare_event_close()
 *
 * What is opened can be recorded too, then the owner and all others wait for that. In the process that
 * created it this gives that very event, which CUDA itself refuses (CUDA_ERROR_INVALID_CONTEXT).
 * Opening twice in a session gives the same and counts. Processes must have one /dev/shm, by which
 * CUDA shares events: from another container GPUSHARE_E_CUDA (CUDA_ERROR_MAP_FAILED) else.
 *
 * Threads: safe from any thread; needs no current CUDA context; spoils no stream capture.
 * Errors:  GPUSHARE_E_NOT_FOUND, _E_INVALID (the name is a buffer's), _E_OWNER_GONE (it has gone just
 *          now), _E_TIMED_OUT (with wait_ms), _E_DENIED, _E_DEVICE, _E_NO_MEMORY, _E_NOT_SUPPORTED,
 *          _E_NO_REGISTRY, _E_NO_DRIVER, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuIpcOpenEventHandle.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_event is untouched then.
 */
int gpushare_event_open(struct gpushare_session *session, const char *name,
			const struct gpushare_event_options *options,
			struct gpushare_event **out_event);

/**
 * gpushare_event_record() - the event stands for what @stream has been given up to now
 * @stream: a CUstream or cudaStream_t of the event's context; NULL for its default stream
 *
 * Whoever waits from now on waits for that; who waits already, for what was recorded before. CUDA
 * captures no interprocess event: on a stream that is being captured it is refused, and the capture
 * goes on.
 *
 * Threads: safe; needs no current CUDA context. The registry is not asked.
 * Errors:  GPUSHARE_E_INVALID (a stream of another context, or none), _E_NOT_SUPPORTED (it is being
 *          captured), _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuEventRecord.
 */
int gpushare_event_record(struct gpushare_event *event, void *stream);

/**
 * gpushare_event_wait() - what @stream is given from now on comes after what was recorded last
 * @stream: a CUstream or cudaStream_t of the event's context; NULL for its default stream, if no other
 *          context is current. For a stream of another GPU open the event there too: see
 *          gpushare_event_options
 *
 * The CPU does not wait. What was recorded by a process that has died is not waited for if it is not
 * done: GPUSHARE_E_OWNER_GONE. A stream that waits already when that process is killed is let through
 * by nobody (measured, driver 580): it stands until its own process ends, and so does whoever waits for
 * it. Where that matters use gpushare_event_wait_host(). A stream that is being captured is refused,
 * and the capture goes on.
 *
 * Threads: safe; needs no current CUDA context. The registry is asked only when it has let know that
 *          something about the name has changed, or has been started anew.
 * Errors:  GPUSHARE_E_INVALID (a stream of another context, or none), _E_NOT_SUPPORTED (it is being
 *          captured), _E_OWNER_GONE, _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuStreamWaitEvent.
 */
int gpushare_event_wait(struct gpushare_event *event, void *stream);

/**
 * gpushare_event_query() - is what was recorded last done?
 *
 * Threads: as gpushare_event_wait(); spoils no stream capture.
 *
 * Return: GPUSHARE_OK: it is; GPUSHARE_E_NOT_READY: it is not; _E_OWNER_GONE: it is not, and the owner
 *         is gone, by whom it may never be done; _E_INVALID, _E_CUDA, _E_FORKED.
 */
int gpushare_event_query(struct gpushare_event *event);

/**
 * gpushare_event_wait_host() - wait on the CPU for what was recorded last
 * @timeout_ms: milliseconds; 0: only look; negative: as long as it takes
 *
 * It asks the driver without a pause for some 50 us, then with pauses that grow to 1 ms, and looks
 * whether the owner is there.
 *
 * Threads: safe, also with each other; needs no current CUDA context; spoils no stream capture.
 * Errors:  GPUSHARE_E_TIMED_OUT, _E_OWNER_GONE (it is not done, and its owner is gone), _E_INVALID,
 *          _E_CUDA, _E_FORKED
 * Source:  CUDA Driver API, cuEventQuery.
 */
int gpushare_event_wait_host(struct gpushare_event *event, int timeout_ms);

/**
 * gpushare_event_close() - give back one open; the last one, and the creator's, end the event here
 * @event: NULL is allowed; not usable afterwards
 *
 * The creator's takes the name away. The event itself stays, in the creator's session, until nobody
 * has it open any more, or the session ends: what others wait for still comes. Of more than 64 such
 * events of a session the oldest goes first.
 *
 * Errors:  GPUSHARE_E_CUDA, _E_FORKED
 */
int gpushare_event_close(struct gpushare_event *event);

/** gpushare_event_handle() - the CUevent, for CUDA calls of one's own in its context; NULL for NULL */
void *gpushare_event_handle(const struct gpushare_event *event);

/** gpushare_event_info() - as the registry knew it at that time: of no bytes, its backing EVENT;
 * errors: GPUSHARE_E_INVALID */
int gpushare_event_info(const struct gpushare_event *event, struct gpushare_info *out_info);

/** struct gpushare_dlpack_options - a tensor over a buffer, C-contiguous; the fields but for the last
 * three as in DLPack's DLDataType and DLDevice */
struct gpushare_dlpack_options {
	int device_type; /* 2 or 0: CUDA's; of a unified buffer also 1, the CPU's, or 3, pinned */
	unsigned char code;   /* of the element's type; with bits 0 it is uint8 */
	unsigned char bits;   /* of an element, in whole bytes with its lanes */
	unsigned short lanes; /* 0: 1 */
	int versioned;	      /* 1: a DLManagedTensorVersioned, which tells of read-only ones */
	int ndim;
	const int64_t *shape; /* elements in each of ndim dimensions */
	size_t offset;	      /* bytes into the buffer */
};

/**
 * gpushare_dlpack() - a buffer as a DLPack tensor, for whatever takes those
 * @options: NULL for all of it in one dimension of uint8, as a DLManagedTensor
 * @out_managed: a DLManagedTensor or DLManagedTensorVersioned; end it with its `deleter`
 *
 * The memory stays mapped until the deleter is called, after gpushare_detach(), gpushare_free() and
 * gpushare_close() too: what those would have ended last ends then, and is waited for as
 * cuCtxSynchronize does. Memory that was given to gpushare_share() stays the caller's affair. The
 * deleter may be called by any thread, at any time, once; in a forked child it frees the struct.
 *
 * Nothing is waited for here: whoever reads orders itself behind whoever wrote.
 *
 * Shapes:  as told, C-contiguous, within the buffer.
 * Units:   elements; offset in bytes.
 * Threads: safe from any thread; needs no current CUDA context.
 * Errors:  GPUSHARE_E_INVALID, _E_RANGE, _E_NOT_SUPPORTED (a host_only buffer; the CPU's device type,
 *          and the buffer is not unified), _E_NO_MEMORY, _E_FORKED
 * Source:  DLPack 1.0, dlpack.h.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_managed is untouched then.
 */
int gpushare_dlpack(struct gpushare_buffer *buffer, const struct gpushare_dlpack_options *options,
		    void **out_managed);

/*
 * The order of what one process writes into a buffer and others read: publications, numbered 1, 2,
 * 3 and so on, in a page of host memory that is the buffer's. One process publishes: the first that
 * does, the buffer's owner or another that may write it; others are told who. Any number of processes
 * consume, each at its own pace; the publisher may wait until all of them are done with a number.
 * A ring of K frames: see tests/demo/ring_producer.c and ring_consumer.c.
 *
 * What the calls with a stream do happens in the stream's order, and they return at once. `stream` is
 * a CUstream or cudaStream_t of any context; NULL: the legacy default stream of the current context,
 * or of the buffer's where none is current. Those that end in _host do it now, by the CPU, and need
 * no CUDA: also of host_only buffers. The first of these calls on a buffer asks the registry, and so
 * do the first that publishes and the first that joins; later ones don't.
 *
 * GPUSHARE_E_TIMED_OUT, where another thread's call on the same buffer took too long (one that has a
 * stream: ten seconds or what the session waits, whichever is more), means that nothing was done, be
 * the registry or the driver only slow: call again. gpushare_leave() says what it means there.
 *
 * Where a GPU has no 64-bit stream memory operations, host functions store the numbers. gpushare_acquire()
 * and gpushare_reclaim() wait on the CPU then; so do gpushare_publish() and gpushare_release() where what
 * was given before is another stream's or the CPU's, and is not done. None of it can be captured.
 * gpushare_ordering() tells.
 *
 * When the publisher has gone (it detaches or frees the buffer, ends, is killed) nobody waits for it
 * any more: waits for what was not published end with GPUSHARE_E_OWNER_GONE, and streams that wait are
 * let through, within a moment of the registry's hearing of it: gpushare_order_status() then says so,
 * and gpushare_sequence() how far what was read is whole. What the publisher's own streams were given
 * still comes one behind the other. A consumer that has gone is not waited for.
 */

/**
 * gpushare_publish() - what the stream was given so far is a publication once it is done
 * @stream:       see above; it may be capturing
 * @out_sequence: its number; may be NULL. 0 where that is not known yet, see below
 *
 * What other streams of this process published before comes before it. Captured into a graph, each
 * launch publishes once, and takes its number then, by a host function; from then on so does every
 * gpushare_publish() of that buffer in this process, and the number that this tells is 0.
 *
 * Threads: safe; those that publish one buffer do so one after the other.
 * Errors:  GPUSHARE_E_DENIED (another process publishes it: the sentence says which), _E_READ_ONLY,
 *          _E_OWNER_GONE (the name has gone), _E_INVALID (host_only), _E_CUDA, _E_NO_MEMORY,
 *          _E_FORKED, _E_TIMED_OUT (see above), _E_NOT_SUPPORTED (captured, or by the driver, without
 *          stream memory operations); the first call also _E_NO_REGISTRY, _E_LIMIT
 * Source:  CUDA Driver API, cuStreamWriteValue64, cuStreamWaitValue64, cuMemHostRegister,
 *          cuLaunchHostFunc.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status; @out_sequence is untouched then.
 */
int gpushare_publish(struct gpushare_buffer *buffer, void *stream, uint64_t *out_sequence);

/**
 * gpushare_publish_host() - the bytes that the CPU has written are a publication, now
 *
 * Waits for what streams of this process were given to publish before. Not to be called in a host
 * function of CUDA's: what comes before it may be behind that.
 *
 * The rest as gpushare_publish().
 */
int gpushare_publish_host(struct gpushare_buffer *buffer, uint64_t *out_sequence);

/**
 * gpushare_acquire() - what the stream is given from now on comes after a publication
 * @at_least: its number, or a later one's
 *
 * Makes this process a consumer as gpushare_join() does, if it neither is one nor publishes, unless
 * the buffer was attached as passive. Captured into a graph, each launch waits for that number.
 *
 * Errors:  GPUSHARE_E_OWNER_GONE (it will not come), _E_LIMIT (no room for a consumer more), and as
 *          gpushare_publish()
 * Source:  CUDA Driver API, cuStreamWaitValue64, cuStreamWaitEvent, cuEventQuery.
 *
 * Return: GPUSHARE_OK, or a negative enum gpushare_status.
 */
int gpushare_acquire(struct gpushare_buffer *buffer, void *stream, uint64_t at_least);

/**
 * gpushare_acquire_host() - wait on the CPU for a publication
 * @timeout_ms:   0: just look; negative: for ever
 * @out_sequence: what is published by now, @at_least or more; may be NULL
 *
 * Looks again and again for some 50 us, then sleeps, a millisecond at a time at most. What a GPU has
 * published is in the buffer's memory then; what reads it there is the caller's affair.
 *
 * Errors:  as gpushare_acquire(), and GPUSHARE_E_TIMED_OUT
 */
int gpushare_acquire_host(struct gpushare_buffer *buffer, uint64_t at_least, int timeout_ms,
			  uint64_t *out_sequence);

/**
 * gpushare_release() - once the stream is there, this process is done with all up to @sequence
 *
 * What other streams of this process release before comes before it; less than what was released
 * already says nothing.
 *
 * Errors:  GPUSHARE_E_INVALID (this process has not joined), _E_RANGE (neither published nor waited
 *          for), _E_TIMED_OUT (see above: it is not released; call again), _E_CUDA, _E_FORKED
 */
int gpushare_release(struct gpushare_buffer *buffer, void *stream, uint64_t sequence);

/** gpushare_release_host() - this process is done with all up to @sequence; errors as above */
int gpushare_release_host(struct gpushare_buffer *buffer, uint64_t sequence);

/**
 * gpushare_reclaim() - the stream waits until every process that joined has released @sequence
 *
 * From then on the publisher may overwrite what it published as that or before. Who joins after this
 * call is told a later number. With nobody joined it waits for nobody.
 *
 * Errors:  as gpushare_publish()
 */
int gpushare_reclaim(struct gpushare_buffer *buffer, void *stream, uint64_t sequence);

/** gpushare_reclaim_host() - the same on the CPU; @timeout_ms as gpushare_acquire_host() */
int gpushare_reclaim_host(struct gpushare_buffer *buffer, uint64_t sequence, int timeout_ms);

/**
 * gpushare_join() - be a consumer for whom the publisher waits
 * @out_first: nothing from this number on is reclaimed before this process releases it; may be NULL
 *
 * Joined already, it tells the number after what was released. A buffer takes 240 processes.
 *
 * Errors:  GPUSHARE_E_LIMIT, and as gpushare_acquire()
 */
int gpushare_join(struct gpushare_buffer *buffer, uint64_t *out_first);

/**
 * gpushare_leave() - be none any more; the publisher does not wait
 *
 * Errors:  those of a first call. After _E_TIMED_OUT and _E_NO_REGISTRY this process is none all the
 *          same, and the registry hears of it when it is asked next.
 */
int gpushare_leave(struct gpushare_buffer *buffer);

/** gpushare_sequence() - what was published last; 0: nothing so far. Errors: those of a first call */
int gpushare_sequence(struct gpushare_buffer *buffer, uint64_t *out_published);

/** gpushare_order_status() - GPUSHARE_OK: more may be published; GPUSHARE_E_OWNER_GONE: nothing that
 * was not, and streams that waited for it were let through. Errors: those of a first call */
int gpushare_order_status(struct gpushare_buffer *buffer);

/** gpushare_ordering() - how this process does it, or where it used no stream the publisher; asks
 * nobody. NONE before the first of the calls above */
enum gpushare_ordering gpushare_ordering(struct gpushare_buffer *buffer);

/** gpushare_ordering_text() - that in a word; never NULL */
const char *gpushare_ordering_text(enum gpushare_ordering ordering);

/** gpushare_status_text() - a status in a few words; never NULL */
const char *gpushare_status_text(int status);

/** gpushare_explain() - the sentence behind this thread's last failure; "" if none; never NULL */
const char *gpushare_explain(void);

/** gpushare_version() - of the library that is loaded, e.g. "0.1.0" */
const char *gpushare_version(void);

#ifdef __cplusplus
}
#endif

#endif
