/* SPDX-License-Identifier: MIT */
/*
 * Attaches a buffer of another process by its name and prints the text in it. Then it writes a text
 * through a mirror, a copy in pinned host memory.
 *
 *	cc reader.c $(pkg-config --cflags --libs gpushare) -o reader && ./reader greeting
 */
#include <gpushare.h>
#include <stdio.h>

static int failed(const char *what)
{
	fprintf(stderr, "reader: %s: %s\n", what, gpushare_explain());
	return 1;
}

int main(int count, char **argument)
{
	struct gpushare_attach_options wait = {.wait_ms = 5000};
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct gpushare_mirror *mirror;
	char *text;

	if (count != 2) {
		fprintf(stderr, "usage: reader NAME\n");
		return 2;
	}
	if (gpushare_open(NULL, &session))
		return failed("open");
	if (gpushare_attach(session, argument[1], &wait, &buffer))
		return failed("attach");
	if (gpushare_mirror_open(buffer, 0, gpushare_size(buffer), GPUSHARE_READ | GPUSHARE_WRITE,
				 &mirror))
		return failed("mirror");
	text = gpushare_mirror_data(mirror);
	printf("reader: \"%s\" reads \"%s\"\n", argument[1], text);
	snprintf(text, gpushare_mirror_size(mirror), "hello from the reader");
	if (gpushare_mirror_close(mirror)) /* writes the mirror back to the buffer */
		return failed("mirror");
	return gpushare_close(session) ? failed("close") : 0;
}
