/* SPDX-License-Identifier: MIT */
/* Shared by the verbs that copy: attaching a buffer, and signals. */
#include "copy.h"

#include <string.h>

#include "common/suggest.h"

volatile sig_atomic_t copy_caught;

static void catch_signal(int number)
{
	copy_caught = number;
}

static void set_signals(const struct sigaction *action)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct sigaction before;

		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], action, NULL);
	}
}

void copy_catch_signals(void)
{
	/* SA_RESETHAND: a second signal of the same kind ends the process. This is needed if the
	 * first one came just before a write() that blocks, and so did not interrupt it. */
	set_signals(&(struct sigaction){.sa_handler = catch_signal, .sa_flags = SA_RESETHAND});
}

void copy_let_signals(void)
{
	set_signals(&(struct sigaction){.sa_handler = SIG_DFL});
	if (copy_caught)
		copy_die("");
}

void copy_die(const char *words)
{
	if (*words)
		tool_error("%s", words);
	signal(copy_caught, SIG_DFL);
	raise(copy_caught);
}

/* Whether the error means that CUDA can't start here, or can't reach the buffer's GPU. */
static bool is_cudas(int status)
{
	return status == GPUSHARE_E_NO_DRIVER || status == GPUSHARE_E_DEVICE ||
	       status == GPUSHARE_E_CUDA || status == GPUSHARE_E_NO_MEMORY;
}

/* Prefer CUDA, because the GPU's copy engine is fastest. Without CUDA, the CPU may still be able to
 * read and write the memory, but more slowly. */
int copy_attach_quietly(struct gpushare_session *session, const char *name, unsigned int wait_ms,
			bool write, struct gpushare_buffer **out)
{
	struct gpushare_attach_options wanted = {.wait_ms = wait_ms, .read_only = !write};
	int status = gpushare_attach(session, name, &wanted, out);

	if (!is_cudas(status))
		return status;
	tool_error("%s; going on without CUDA", gpushare_explain());
	wanted.host_only = 1;
	return gpushare_attach(session, name, &wanted, out);
}

struct gpushare_buffer *copy_attach(struct gpushare_session *session, const char *name,
				    unsigned int wait_ms, bool write)
{
	struct gpushare_buffer *buffer = NULL;
	int status = copy_attach_quietly(session, name, wait_ms, write, &buffer);

	if (status)
		suggest_failed(session, name, wait_ms, status);
	return buffer;
}
