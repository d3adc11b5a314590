/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_UCX_H
#define GPUSHARE_TOOLS_UCX_H
/*
 * Send or receive bytes by UCX, on a trusted network only: active messages with rendezvous from one
 * worker to another. libucp is loaded at run time. UCX neither encrypts nor authenticates, so the
 * peers exchange addresses and tokens over the stream. UCP_FEATURE_RMA is never requested, because
 * it would let a peer read any memory of this process.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "message.h"

#define UCX_CONNECT_MS 3000
#define UCX_PARTS_MAX 8

struct ucx;

/* libucp's version, such as "1.13". NULL: UCX can't be used; the reason is in `why`, unless that is
 * NULL. The first call uses setenv(): no other thread may read the environment meanwhile. */
const char *ucx_version(char *why);

/* Open a worker, for one thread, that uses only this network interface. NULL: the reason is in
 * `why`. */
struct ucx *ucx_open(const char *interface, char why[NODES_WHY_MAX]);
/* NULL is allowed. Afterwards, UCX over TCP doesn't use the memory given to ucx_start() and
 * ucx_expect(). Over RDMA (never tried), a receive that has not ended may still write to it. */
void ucx_close(struct ucx *ucx);

/* The sending side: connect. `address` and `token` are those of the receiver's ucx_listen(). */
bool ucx_connect(struct ucx *ucx, const void *address, const uint8_t token[NODE_TOKEN_SIZE],
		 char why[NODES_WHY_MAX]);
/* Begin to send a part of the buffer; at most UCX_PARTS_MAX may be unfinished. */
void ucx_start(struct ucx *ucx, uint64_t offset, const void *from, size_t size);
/* Wait until the receiver has the bytes of the oldest ucx_start(). False: the connection failed,
 * `patience_ms` have passed, or the descriptor `stop` is readable. */
bool ucx_finish(struct ucx *ucx, int stop, int patience_ms);

/* The receiving side: accept messages with this token. *out_address is valid until ucx_close(). */
bool ucx_listen(struct ucx *ucx, const uint8_t token[NODE_TOKEN_SIZE], const void **out_address,
		size_t *out_size);
/* Have ucx_receive() write the `size` bytes from `offset` on to `to`. It drops messages without the
 * token. Messages with other offsets wait for a later ucx_expect(). */
void ucx_expect(struct ucx *ucx, uint64_t offset, void *to, size_t size);
/* Receive until the descriptor `other` is readable. If `other` is -1: until all expected bytes are
 * written, or a receive fails. In both cases at most `patience_ms`. Returns whether all expected
 * bytes are written. */
bool ucx_receive(struct ucx *ucx, int other, int patience_ms);

#if !__has_include(<ucp/api/ucp.h>)
/* Without UCX's headers these are not defined. Nothing calls them, because ucx_open() fails. */
#pragma weak ucx_connect
#pragma weak ucx_start
#pragma weak ucx_finish
#pragma weak ucx_listen
#pragma weak ucx_expect
#pragma weak ucx_receive
#endif

#endif
