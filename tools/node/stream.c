/* SPDX-License-Identifier: MIT */
#include "stream.h"

#include <errno.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NODE_TLS_NAME "gpushare" /* the common name of nodes' certificates */
#define BACKLOG 128

struct stream {
	int fd;
	bool tls;
	mbedtls_ssl_context ssl;
	mbedtls_ssl_config config;
	mbedtls_x509_crt ca, own;
	mbedtls_pk_context key;
};

static bool refuse(char why[NODES_WHY_MAX], const char *what, const char *reason)
{
	return nodes_refuse(why, "%.4000s: %s", what, reason);
}

static int draw(void *user, unsigned char *out, size_t size)
{
	(void)user;
	return getrandom(out, size, 0) == (ssize_t)size ? 0 : -1;
}

static int parse_key(mbedtls_pk_context *key, const char *path)
{
#if MBEDTLS_VERSION_MAJOR >= 3
	return mbedtls_pk_parse_keyfile(key, path, NULL, draw, NULL);
#else
	return mbedtls_pk_parse_keyfile(key, path, NULL);
#endif
}

static int receive_raw(void *user, unsigned char *to, size_t size)
{
	const struct stream *stream = user;
	ssize_t got = TEMP_FAILURE_RETRY(recv(stream->fd, to, size, 0));

	return got < 0 ? MBEDTLS_ERR_NET_RECV_FAILED : got ? (int)got : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int send_raw(void *user, const unsigned char *from, size_t size)
{
	const struct stream *stream = user;
	ssize_t sent = TEMP_FAILURE_RETRY(send(stream->fd, from, size, MSG_NOSIGNAL));

	return sent < 0 ? MBEDTLS_ERR_NET_RECV_FAILED : (int)sent;
}

/* Read the certificates, and configure TLS. `side`: MBEDTLS_SSL_IS_SERVER or _CLIENT. */
static bool configure_tls(struct stream *stream, int side, const char *folder,
			  char why[NODES_WHY_MAX])
{
	char ca[PATH_MAX], own[PATH_MAX];

	/* Nodes take the owner of the key for this user, so others must not read it. They trust
	 * each certificate that the CA has signed, so others must not change the CA's file. */
	if (!nodes_file(folder, "ca.pem", 022, ca, why) || !*ca ||
	    !nodes_file(folder, "node.pem", 077, own, why) || !*own)
		return false;
	if (mbedtls_x509_crt_parse_file(&stream->ca, ca))
		return refuse(why, ca, "no certificate can be read from it");
	if (mbedtls_x509_crt_parse_file(&stream->own, own) || parse_key(&stream->key, own))
		return refuse(why, own, "no certificate with its private key can be read from it");
	mbedtls_ssl_config_defaults(&stream->config, side, MBEDTLS_SSL_TRANSPORT_STREAM,
				    MBEDTLS_SSL_PRESET_DEFAULT);
	mbedtls_ssl_conf_rng(&stream->config, draw, NULL);
	mbedtls_ssl_conf_authmode(&stream->config, MBEDTLS_SSL_VERIFY_REQUIRED);
	mbedtls_ssl_conf_ca_chain(&stream->config, &stream->ca, NULL);
	/* With TLS 1.3, mbedtls_ssl_read() would also return for session tickets. */
#if MBEDTLS_VERSION_MAJOR >= 3
	mbedtls_ssl_conf_max_tls_version(&stream->config, MBEDTLS_SSL_VERSION_TLS1_2);
#else /* this version accepts TLS 1.0 and 1.1 by default */
	mbedtls_ssl_conf_min_version(&stream->config, MBEDTLS_SSL_MAJOR_VERSION_3,
				     MBEDTLS_SSL_MINOR_VERSION_3);
#endif
	if (mbedtls_ssl_conf_own_cert(&stream->config, &stream->own, &stream->key) ||
	    mbedtls_ssl_setup(&stream->ssl, &stream->config) ||
	    (side == MBEDTLS_SSL_IS_CLIENT &&
	     mbedtls_ssl_set_hostname(&stream->ssl, NODE_TLS_NAME)))
		return refuse(why, "TLS", strerror(ENOMEM));
	mbedtls_ssl_set_bio(&stream->ssl, stream, send_raw, receive_raw, NULL);
	return true;
}

/* `folder` NULL: without TLS. Takes ownership of `fd`, also on failure. */
static struct stream *wrap(int fd, int side, const char *folder, char why[NODES_WHY_MAX])
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream) {
		close(fd);
		refuse(why, "the connection", strerror(ENOMEM));
		return NULL;
	}
	*stream = (struct stream){.fd = fd, .tls = folder};
	mbedtls_ssl_init(&stream->ssl);
	mbedtls_ssl_config_init(&stream->config);
	mbedtls_x509_crt_init(&stream->ca);
	mbedtls_x509_crt_init(&stream->own);
	mbedtls_pk_init(&stream->key);
	if (!folder || configure_tls(stream, side, folder, why))
		return stream;
	stream_free(stream);
	return NULL;
}

bool stream_check(const char *folder, char why[NODES_WHY_MAX])
{
	struct stream *stream = wrap(-1, MBEDTLS_SSL_IS_SERVER, folder, why);

	stream_free(stream);
	return stream;
}

struct stream *stream_of(int fd, const char *folder, char why[NODES_WHY_MAX])
{
	return wrap(fd, MBEDTLS_SSL_IS_SERVER, folder, why);
}

static int open_socket(const struct address *address)
{
	int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

	/* Don't delay a small message before a large one. Accepted sockets inherit this option. */
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return fd;
}

struct stream *stream_dial(const struct address *address, const char *folder,
			   char why[NODES_WHY_MAX])
{
	const struct timeval silence = {.tv_sec = NODE_SILENCE_MS / 1000};
	int fd = open_socket(address), error = errno;
	struct stream *stream = wrap(fd, MBEDTLS_SSL_IS_CLIENT, address->tls ? folder : NULL, why);

	if (!stream)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
	/* SO_SNDTIMEO also limits connect(). */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&address->at, address->at_size))
		return stream;
	if (fd >= 0)
		error = errno == EINPROGRESS ? ETIMEDOUT : errno;
	refuse(why, address->text,
	       error == ECONNREFUSED ? "no node listens there" : stream_error_text(error));
	stream_free(stream);
	return NULL;
}

int stream_listen(const struct address *address, int *out_port, char why[NODES_WHY_MAX])
{
	struct sockaddr_storage at;
	socklen_t size = sizeof(at);
	char port[NI_MAXSERV];
	int fd = open_socket(address), yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (address->at.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&address->at, address->at_size) &&
	    !listen(fd, BACKLOG) && !getsockname(fd, (struct sockaddr *)&at, &size) &&
	    !getnameinfo((struct sockaddr *)&at, size, NULL, 0, port, sizeof(port),
			 NI_NUMERICSERV)) {
		*out_port = atoi(port);
		return fd;
	}
	refuse(why, address->text, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

bool stream_is_by(int fd, const char *interface, char out_peer[ADDRESS_MAX])
{
	struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
	char here[NI_MAXHOST];
	socklen_t size = sizeof(at);
	int probe;
	bool good;

	if (getpeername(fd, (struct sockaddr *)&at, &size) ||
	    getnameinfo((struct sockaddr *)&at, size, out_peer, ADDRESS_MAX, NULL, 0,
			NI_NUMERICHOST))
		return false;
	/* a connected UDP socket has the source address that the kernel uses for this peer */
	probe = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	good = probe >= 0 && !connect(probe, (struct sockaddr *)&at, size) &&
	       !getsockname(probe, (struct sockaddr *)&at, &size) &&
	       !getnameinfo((struct sockaddr *)&at, size, here, sizeof(here), NULL, 0,
			    NI_NUMERICHOST) &&
	       address_is_of(here, interface);
	if (probe >= 0)
		close(probe);
	return good;
}

int stream_fd(const struct stream *stream)
{
	return stream->fd;
}

/* The errno for a failed call of `stream`, which returned `result`. */
static int error_of(const struct stream *stream, int result)
{
	if (!result || (stream->tls && result != MBEDTLS_ERR_NET_RECV_FAILED))
		return ECONNRESET;
	return errno == EAGAIN ? ETIMEDOUT : errno;
}

int stream_receive(struct stream *stream, void *to, size_t size)
{
	for (unsigned char *at = to; size;) {
		int got = stream->tls ? mbedtls_ssl_read(&stream->ssl, at, size)
				      : (int)TEMP_FAILURE_RETRY(recv(stream->fd, at, size, 0));

		if (got <= 0)
			return error_of(stream, got);
		at += got;
		size -= (size_t)got;
	}
	return 0;
}

int stream_send(struct stream *stream, const void *from, size_t size)
{
	for (const unsigned char *at = from; size;) {
		int sent = stream->tls ? mbedtls_ssl_write(&stream->ssl, at, size)
				       : send_raw(stream, at, size);

		if (sent <= 0)
			return error_of(stream, sent);
		at += sent;
		size -= (size_t)sent;
	}
	return 0;
}

bool stream_is_ready(struct stream *stream, int patience_ms)
{
	struct pollfd bytes = {.fd = stream->fd, .events = POLLIN};

	return (stream->tls && mbedtls_ssl_get_bytes_avail(&stream->ssl)) ||
	       poll(&bytes, 1, patience_ms);
}

const char *stream_error_text(int error)
{
	if (error == ETIMEDOUT)
		return "nothing came for 10 s";
	return error == ECONNRESET || error == EPIPE ? "the connection was closed"
						     : strerror(error);
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	mbedtls_ssl_free(&stream->ssl);
	mbedtls_ssl_config_free(&stream->config);
	mbedtls_x509_crt_free(&stream->ca);
	mbedtls_x509_crt_free(&stream->own);
	mbedtls_pk_free(&stream->key);
	/* The node has another descriptor of the socket: close() doesn't end the connection. */
	shutdown(stream->fd, SHUT_RDWR);
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream);
}
