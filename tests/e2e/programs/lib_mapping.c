// SPDX-License-Identifier: MIT
/* A plug-in with libgpushare.a in it, for a program without gpushare: maps buffer w for the CPU. */
#include <stdio.h>

#include "gpushare.h"

int mapping_open(void);
int mapping_load(void);
int mapping_close(void);

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;
static struct gpushare_map *map;

int mapping_open(void)
{
	const struct gpushare_attach_options options = {.host_only = 1};
	int status = gpushare_open(NULL, &session);

	if (!status)
		status = gpushare_attach(session, "w", &options, &buffer);
	if (!status)
		status = gpushare_map(buffer, 0, 8, GPUSHARE_READ, &map);
	if (status)
		fprintf(stderr, "%s\n", gpushare_explain());
	return status;
}

int mapping_load(void)
{
	return ((const volatile unsigned char *)gpushare_map_data(map))[5];
}

int mapping_close(void)
{
	int status = gpushare_unmap(map);

	if (!status)
		status = gpushare_detach(buffer);
	return status ? status : gpushare_close(session);
}
