/* SPDX-License-Identifier: MIT */
/*
 * Allocates a named buffer on the GPU, writes a text into it and waits for a line on standard
 * input. Then it prints the text that the buffer holds.
 *
 *	cc owner.c $(pkg-config --cflags --libs gpushare) -o owner && ./owner greeting
 */
#include <gpushare.h>
#include <stdio.h>
#include <string.h>

#define SIZE 4096

static int failed(const char *what)
{
	fprintf(stderr, "owner: %s: %s\n", what, gpushare_explain());
	return 1;
}

int main(int count, char **argument)
{
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	char text[SIZE] = "hello from the owner";

	if (count != 2) {
		fprintf(stderr, "usage: owner NAME\n");
		return 2;
	}
	if (gpushare_open(NULL, &session))
		return failed("open");
	if (gpushare_alloc(session, argument[1], -1, SIZE, &buffer))
		return failed("alloc");
	if (gpushare_copy_to(buffer, 0, text, sizeof(text)))
		return failed("copy");
	printf("owner: \"%s\" reads \"%s\"\n", argument[1], text);
	fflush(stdout);
	getchar();
	if (gpushare_copy_from(buffer, 0, text, sizeof(text)))
		return failed("copy");
	printf("owner: \"%s\" reads \"%.*s\"\n", argument[1], (int)strnlen(text, SIZE), text);
	return gpushare_close(session) ? failed("close") : 0;
}
