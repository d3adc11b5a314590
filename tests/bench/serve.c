// SPDX-License-Identifier: MIT
/*
 * What a round trip costs without us: `serve echo SOCKET`, SOCK_SEQPACKET with a thread for each
 * client; `serve nng SOCKET`, nng's REP with contexts, as the registry has them.
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONTEXTS 80 /* above the clients of any measurement */

struct context {
	nng_ctx context;
	nng_aio *aio;
	bool sending;
};

static void stop(const char *what)
{
	fprintf(stderr, "serve: %s\n", what);
	exit(1);
}

static void *echo(void *argument)
{
	int fd = (int)(intptr_t)argument;
	char message[4096];
	ssize_t got;

	while ((got = recv(fd, message, sizeof(message), 0)) > 0)
		if (send(fd, message, (size_t)got, MSG_NOSIGNAL) != got)
			break;
	close(fd);
	return NULL;
}

static void serve_echo(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (bind(listening, (const struct sockaddr *)&at, sizeof(at)) || listen(listening, 128))
		stop("can't listen");
	for (;;) {
		int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		pthread_t thread;

		if (fd < 0 || pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd))
			stop("no client could be taken");
		pthread_detach(thread);
	}
}

/* A message came, and goes as it is; or it has gone. */
static void on_done(void *argument)
{
	struct context *context = argument;
	int fault = nng_aio_result(context->aio);

	if (fault == NNG_ECLOSED)
		return;
	if (fault && context->sending)
		nng_msg_free(nng_aio_get_msg(context->aio));
	context->sending = !fault && !context->sending;
	if (context->sending)
		nng_ctx_send(context->context, context->aio);
	else
		nng_ctx_recv(context->context, context->aio);
}

static void serve_nng(const char *path)
{
	static struct context contexts[CONTEXTS];
	nng_socket socket;
	char url[256];

	snprintf(url, sizeof(url), "ipc://%s", path);
	if (nng_rep0_open(&socket))
		stop("no socket");
	for (int i = 0; i < CONTEXTS; i++) {
		if (nng_aio_alloc(&contexts[i].aio, on_done, &contexts[i]) ||
		    nng_ctx_open(&contexts[i].context, socket))
			stop("no context");
		nng_ctx_recv(contexts[i].context, contexts[i].aio);
	}
	if (nng_listen(socket, url, NULL, 0))
		stop("can't listen");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "echo"))
		serve_echo(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "nng"))
		serve_nng(argv[2]);
	stop("usage: serve echo|nng SOCKET");
}
