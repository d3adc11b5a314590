/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_UCX_H
#define GPUSHARE_TOOLS_UCX_H
/*
 * Bytes by UCX, on a trusted network only: active messages with rendezvous from one worker to
 * another. libucp is loaded at run time. UCX encrypts nothing and asks nobody who they are, so the
 * addresses and tokens go over the stream. It never gets UCP_FEATURE_RMA, with which a peer could
 * read any memory of this process.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"

#define UCX_WHY_MAX 480
#define UCX_CONNECT_MS 3000
#define UCX_PARTS_MAX 8

struct ucx;

/* "1.13" if libucp is of that version. NULL: `why`, which may be NULL, says why there is none. The
 * first call sets variables of the environment, so no other thread may read it meanwhile. */
const char *ucx_version(char *why);

/* A worker that uses only that network interface. NULL: `why` says what is wrong. */
struct ucx *ucx_open(const char *interface, char why[UCX_WHY_MAX]);
/* NULL is allowed. Afterwards no memory is read or written any more. */
void ucx_close(struct ucx *ucx);

/* The sending side, in one thread. `token` says for what the bytes are, and `offset` where they
 * belong there. */
bool ucx_connect(struct ucx *ucx, const void *address, char why[UCX_WHY_MAX]);
/* Begin to send; at most UCX_PARTS_MAX at a time. */
void ucx_start(struct ucx *ucx, const uint8_t token[NODE_TOKEN_SIZE], uint64_t offset,
	       const void *from, size_t size);
/* Wait until the receiver has the bytes of the oldest ucx_start(). False: the connection failed,
 * it took `patience_ms`, or the descriptor `stop` can be read. */
bool ucx_finish(struct ucx *ucx, int stop, int patience_ms);

/* The receiving side: a thread of its own receives. */
bool ucx_listen(struct ucx *ucx, const void **out_address, size_t *out_size);
/* Have the bytes of that token and those offsets written to `to`. Bytes of other tokens are
 * dropped, and those of other offsets wait. */
void ucx_expect(struct ucx *ucx, const uint8_t token[NODE_TOKEN_SIZE], uint64_t offset, void *to,
		size_t size);
/* Wait until all of them were written. False: the connection failed, or it took too long. */
bool ucx_wait(struct ucx *ucx, int patience_ms);

#if !__has_include(<ucp/api/ucp.h>)
/* Without UCX's headers these don't exist: without a struct ucx, nobody calls them. */
#pragma weak ucx_connect
#pragma weak ucx_start
#pragma weak ucx_finish
#pragma weak ucx_listen
#pragma weak ucx_expect
#pragma weak ucx_wait
#endif

#endif
