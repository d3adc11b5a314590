/* SPDX-License-Identifier: MIT */
/*
 * What nng 1.5.2 forgets, by the linker's --wrap. A connection that is closed between two parts of a message
 * has its next part refused (nni_aio_begin() of a stopped aio), and no callback says so: the message
 * is under way for ever, nng's one reaper waits for it, and from then on no connection is let go
 * of. A peer brings that about by asking for much at once and leaving. Here the part ends as one that was
 * begun and then cancelled. A shared libnng is not reached.
 */
#include <nng/nng.h>
#include <stdbool.h>

/* Not to be had of a shared libnng, which calls none of what is below. */
int __real_nni_aio_begin(nng_aio *aio) __attribute__((weak));
void nni_aio_finish_error(nng_aio *aio, int result) __attribute__((weak));

int __wrap_nni_aio_begin(nng_aio *aio);
void __real_nng_stream_recv(nng_stream *stream, nng_aio *aio);
void __wrap_nng_stream_recv(nng_stream *stream, nng_aio *aio);
void __real_nng_stream_send(nng_stream *stream, nng_aio *aio);
void __wrap_nng_stream_send(nng_stream *stream, nng_aio *aio);

static _Thread_local bool refused;

int __wrap_nni_aio_begin(nng_aio *aio)
{
	int result = __real_nni_aio_begin(aio);

	refused = result != 0;
	return result;
}

/* The callback comes in another thread: nng holds locks here that it takes. */
static void end_refused(nng_aio *aio)
{
	if (refused)
		nni_aio_finish_error(aio, NNG_ECANCELED);
}

void __wrap_nng_stream_recv(nng_stream *stream, nng_aio *aio)
{
	refused = false;
	__real_nng_stream_recv(stream, aio);
	end_refused(aio);
}

void __wrap_nng_stream_send(nng_stream *stream, nng_aio *aio)
{
	refused = false;
	__real_nng_stream_send(stream, aio);
	end_refused(aio);
}
