/* SPDX-License-Identifier: MIT */
#include "stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/tool.h"

#define NODE_TLS_NAME "gpushare" /* the common name of nodes' certificates */
#define LOOK_MS 100		 /* until a call that waits checks is_closed() the first time */
#define GRACE_MS 2000		 /* a node waits longer, so that the puller reports a timeout */

struct stream {
	nng_stream *stream;
	nng_aio *receive, *send;
	sem_t received, sent;
	unsigned int silence_ms;   /* without a byte in either direction: close the stream */
	_Atomic uint64_t moved_ms; /* when bytes last came or went */
	atomic_bool closed;	   /* by stream_close() */
};

struct listener {
	nng_stream_listener *listener;
	nng_aio *accept;
};

static bool refuse(char why[NODES_WHY_MAX], const char *what, const char *reason)
{
	snprintf(why, NODES_WHY_MAX, "%.4000s: %s", what, reason);
	return false;
}

/* Whether the file exists, and group and others have none of the permissions `mode`. */
static bool check_file(const char *path, mode_t mode, const char *reason, char why[NODES_WHY_MAX])
{
	struct stat found;

	if (stat(path, &found))
		return refuse(why, path, strerror(errno));
	return !(found.st_mode & mode) || refuse(why, path, reason);
}

/* Make a TLS configuration. `set` gives it to `of`, a dialer or a listener. */
static bool configure_tls(nng_tls_mode mode, const char *folder, void *of,
			  int (*set)(void *of, void *config), char why[NODES_WHY_MAX])
{
	char ca[PATH_MAX], own[PATH_MAX];
	nng_tls_config *config;
	const char *file = ca;
	int error;

	if (!*folder)
		return refuse(why, "TLS",
			      "HOME is not set; --tls DIR says where ca.pem and node.pem are");
	if (snprintf(ca, sizeof(ca), "%s/ca.pem", folder) >= PATH_MAX ||
	    snprintf(own, sizeof(own), "%s/node.pem", folder) >= PATH_MAX)
		return refuse(why, folder, "the path is too long");
	/* all nodes trust the key as this user, and every certificate that the CA has signed */
	if (!check_file(ca, 022, "others may change it; 'chmod go-w' it", why) ||
	    !check_file(own, 077, "others may read this private key; 'chmod 600' it", why))
		return false;
	error = nng_tls_config_alloc(&config, mode);
	if (error)
		return refuse(why, "TLS", nng_strerror(error));
	error = nng_tls_config_ca_file(config, ca);
	if (!error) {
		file = own;
		error = nng_tls_config_cert_key_file(config, own, NULL);
	}
	if (!error)
		error = nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_REQUIRED);
	if (!error && mode == NNG_TLS_MODE_CLIENT) /* mbedTLS from 3.6.3 on wants a name */
		error = nng_tls_config_server_name(config, NODE_TLS_NAME);
	if (!error)
		error = set(of, config);
	nng_tls_config_free(config);
	if (error == NNG_ECRYPTO)
		return refuse(why, file,
			      file == ca
				  ? "no certificate can be read from it"
				  : "no certificate with its private key can be read from it");
	return !error || refuse(why, file, nng_strerror(error));
}

static int set_dialer(void *of, void *config)
{
	return nng_stream_dialer_set_ptr(of, NNG_OPT_TLS_CONFIG, config);
}

static int set_listener(void *of, void *config)
{
	return nng_stream_listener_set_ptr(of, NNG_OPT_TLS_CONFIG, config);
}

static void on_received(void *user)
{
	struct stream *stream = user;

	sem_post(&stream->received);
}

static void on_sent(void *user)
{
	struct stream *stream = user;

	sem_post(&stream->sent);
}

/* Takes ownership of `of`, also on failure. NULL: no memory. */
static struct stream *wrap(nng_stream *of, unsigned int silence_ms)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream) {
		nng_stream_free(of);
		return NULL;
	}
	stream->stream = of;
	sem_init(&stream->sent, 0, 0);
	stream->silence_ms = silence_ms;
	sem_init(&stream->received, 0, 0);
	if (!nng_aio_alloc(&stream->receive, on_received, stream) &&
	    !nng_aio_alloc(&stream->send, on_sent, stream))
		return stream;
	stream_free(stream);
	return NULL;
}

/* Wait for a dial or an accept to end, and take its stream. */
static bool take(nng_aio *aio, unsigned int silence_ms, struct stream **out, const char *what,
		 char why[NODES_WHY_MAX])
{
	int error;

	nng_aio_wait(aio);
	error = nng_aio_result(aio);
	if (error)
		return refuse(why, what,
			      error == NNG_ECONNREFUSED ? "no node listens there"
							: stream_error_text(error));
	*out = wrap(nng_aio_get_output(aio, 0), silence_ms);
	return *out || refuse(why, what, nng_strerror(NNG_ENOMEM));
}

bool stream_dial(const struct address *address, const char *folder, struct stream **out,
		 char why[NODES_WHY_MAX])
{
	nng_stream_dialer *dialer;
	nng_aio *aio;
	int error = nng_stream_dialer_alloc(&dialer, address->url);
	bool good;

	if (error)
		return refuse(why, address->text, nng_strerror(error));
	error = nng_aio_alloc(&aio, NULL, NULL);
	if (error) {
		nng_stream_dialer_free(dialer);
		return refuse(why, address->text, nng_strerror(error));
	}
	nng_aio_set_timeout(aio, NODE_SILENCE_MS);
	good = !address->tls || configure_tls(NNG_TLS_MODE_CLIENT, folder, dialer, set_dialer, why);
	if (good) {
		nng_stream_dialer_dial(dialer, aio);
		good = take(aio, NODE_SILENCE_MS, out, address->text, why);
	}
	nng_aio_free(aio);
	nng_stream_dialer_free(dialer);
	return good;
}

void listener_free(struct listener *listener)
{
	if (listener->listener)
		nng_stream_listener_free(listener->listener);
	if (listener->accept)
		nng_aio_free(listener->accept);
	free(listener);
}

bool listener_open(const struct address *address, const char *folder, struct listener **out,
		   char why[NODES_WHY_MAX])
{
	struct listener *listener = calloc(1, sizeof(*listener));
	int error =
	    listener ? nng_stream_listener_alloc(&listener->listener, address->url) : NNG_ENOMEM;
	bool good =
	    !error && (!address->tls || configure_tls(NNG_TLS_MODE_SERVER, folder,
						      listener->listener, set_listener, why));

	if (good) {
		error = nng_aio_alloc(&listener->accept, NULL, NULL);
		if (!error)
			error = nng_stream_listener_listen(listener->listener);
	}
	if (error)
		good = refuse(why, address->text, nng_strerror(error));
	if (good)
		*out = listener;
	else if (listener)
		listener_free(listener);
	return good;
}

int listener_port(const struct listener *listener)
{
	int port = 0;

	nng_stream_listener_get_int(listener->listener, NNG_OPT_TCP_BOUND_PORT, &port);
	return port;
}

bool listener_accept(struct listener *listener, struct stream **out, char why[NODES_WHY_MAX])
{
	nng_stream_listener_accept(listener->listener, listener->accept);
	return take(listener->accept, NODE_SILENCE_MS + GRACE_MS, out, "a connection", why);
}

bool stream_is_by(const struct stream *stream, const char *interface, char out_peer[ADDRESS_MAX])
{
	struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
	struct address here = {.host = ""};
	socklen_t size = sizeof(at);
	nng_sockaddr peer;
	int probe;
	bool good;

	if (nng_stream_get_addr(stream->stream, NNG_OPT_REMADDR, &peer))
		return false;
	if (peer.s_family == NNG_AF_INET) {
		struct sockaddr_in *to = (struct sockaddr_in *)&at;

		*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = peer.s_in.sa_port};
		to->sin_addr.s_addr = peer.s_in.sa_addr;
	} else {
		struct sockaddr_in6 *to = (struct sockaddr_in6 *)&at;

		*to = (struct sockaddr_in6){.sin6_family = AF_INET6,
					    .sin6_port = peer.s_in6.sa_port,
					    .sin6_scope_id = peer.s_in6.sa_scope};
		memcpy(&to->sin6_addr, peer.s_in6.sa_addr, sizeof(to->sin6_addr));
	}
	getnameinfo((struct sockaddr *)&at, size, out_peer, ADDRESS_MAX, NULL, 0, NI_NUMERICHOST);
	/* a connected UDP socket has the source address that the kernel uses for this peer */
	probe = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	good = probe >= 0 && !connect(probe, (struct sockaddr *)&at, size) &&
	       !getsockname(probe, (struct sockaddr *)&at, &size) &&
	       !getnameinfo((struct sockaddr *)&at, size, here.host, sizeof(here.host), NULL, 0,
			    NI_NUMERICHOST) &&
	       address_is_of(&here, interface);
	if (probe >= 0)
		close(probe);
	return good;
}

/* Whether a call may never end: nng 1.5 doesn't end a call that begins on a closed stream. Also,
 * its TLS reads ahead. If TLS finds the end while no call waits, it shuts the socket down, but
 * doesn't note that: later receives never end, and later sends succeed. */
static bool is_closed(const struct stream *stream)
{
	nng_sockaddr peer;

	return stream->closed || nng_stream_get_addr(stream->stream, NNG_OPT_REMADDR, &peer) != 0;
}

/* Wait for an aio; if no byte moves in time, close the stream. Don't use nng 1.5's own timeout: the
 * TLS handshake ignores it, and a receive that times out ends TLS. */
static int finish(struct stream *stream, nng_aio *aio, sem_t *done, size_t *out_size)
{
	uint64_t began_ms = tool_now_ms(), look_ms = LOOK_MS; /* until the next check; it doubles */
	bool late = false;
	int error;

	for (;;) {
		uint64_t last_ms = stream->moved_ms > began_ms ? stream->moved_ms : began_ms;
		uint64_t end_ms = last_ms + stream->silence_ms, until_ms = began_ms + look_ms;
		struct timespec until;

		until_ms = until_ms < end_ms ? until_ms : end_ms;
		until =
		    (struct timespec){(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
		if (!sem_clockwait(done, CLOCK_MONOTONIC, &until))
			break;
		if (errno == EINTR || stream->moved_ms > last_ms)
			continue;
		late = until_ms == end_ms;
		if (late || is_closed(stream)) {
			nng_stream_close(stream->stream);
			nng_aio_abort(aio, NNG_ECLOSED); /* nng doesn't: see is_closed() */
			sem_wait(done);
			break;
		}
		look_ms *= 2;
	}
	nng_aio_wait(aio);
	error = nng_aio_result(aio);
	*out_size = error ? 0 : nng_aio_count(aio);
	if (!error)
		stream->moved_ms = tool_now_ms();
	return error && late ? NNG_ETIMEDOUT : error;
}

int stream_receive_some(struct stream *stream, void *to, size_t room, size_t *out_size)
{
	nng_iov part = {.iov_buf = to, .iov_len = room};

	nng_aio_set_iov(stream->receive, 1, &part);
	nng_stream_recv(stream->stream, stream->receive);
	return finish(stream, stream->receive, &stream->received, out_size);
}

int stream_receive(struct stream *stream, void *to, size_t size)
{
	size_t part;

	for (char *at = to; size; at += part, size -= part) {
		int error = stream_receive_some(stream, at, size, &part);

		if (error)
			return error;
	}
	return 0;
}

static int send_some(struct stream *stream, const void *from, size_t size, size_t *out_size)
{
	nng_iov part = {.iov_buf = (void *)from, .iov_len = size};

	nng_aio_set_iov(stream->send, 1, &part);
	nng_stream_send(stream->stream, stream->send);
	return finish(stream, stream->send, &stream->sent, out_size);
}

int stream_send(struct stream *stream, const void *from, size_t size)
{
	size_t part;

	for (const char *at = from; size; at += part, size -= part) {
		int error = send_some(stream, at, size, &part);

		if (error)
			return error;
	}
	return 0;
}

bool stream_is_silence(int error)
{
	return error == NNG_ETIMEDOUT;
}

const char *stream_error_text(int error)
{
	switch (error) {
	case NNG_ETIMEDOUT:
		return "nothing came for 10 s";
	case NNG_ECONNREFUSED: /* nng's error also for a proper end of TLS */
	case NNG_ECLOSED:
	case NNG_ECONNRESET:
	case NNG_ECONNSHUT:
		return "the connection was closed";
	}
	return nng_strerror(error);
}

void stream_close(struct stream *stream)
{
	stream->closed = true;
	nng_stream_close(stream->stream);
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	nng_stream_close(stream->stream);
	nng_stream_free(stream->stream);
	if (stream->receive)
		nng_aio_free(stream->receive);
	if (stream->send)
		nng_aio_free(stream->send);
	sem_destroy(&stream->received);
	sem_destroy(&stream->sent);
	free(stream);
}
