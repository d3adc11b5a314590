/* SPDX-License-Identifier: MIT */
/* A complete program: attach another process's GPU buffer by name and write into it. */
#include <gpushare.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char stroke[64] = "retouched from another process";

int main(int count, char **argument)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;

	if (count != 2) {
		fprintf(stderr, "usage: retoucher NAME\n");
		return 2;
	}
	if (gpushare_open(NULL, &session) || gpushare_attach(session, argument[1], NULL, &buffer) ||
	    gpushare_copy_to(buffer, 0, stroke, sizeof(stroke))) {
		fprintf(stderr, "retoucher: %s\n", gpushare_explain());
		return 1;
	}
	printf("retoucher %d: attached \"%s\", %zu bytes at %#llx here, and wrote into it\n",
	       (int)getpid(), argument[1], gpushare_size(buffer),
	       (unsigned long long)gpushare_pointer(buffer));
	return gpushare_close(session) ? 1 : 0;
}
