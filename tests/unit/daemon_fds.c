/* SPDX-License-Identifier: MIT */
#include "daemon_fds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw.h"

#define LISTENS 0x10000U /* __SO_ACCEPTCON */
#define FRESH ".new"	 /* what a listener that is opened anew was bound to: listen.c */

enum kind { OTHER, FRESH_LISTENER, ASKS_ITSELF };

/* The one stream that the daemon connects is the one to itself. */
static enum kind kind_of(unsigned int flags, int type, const char *path)
{
	size_t length = strlen(path), end = strlen(FRESH);

	if (flags & LISTENS)
		return length > end && !strcmp(path + length - end, FRESH) ? FRESH_LISTENER : OTHER;
	return type == SOCK_STREAM && !length ? ASKS_ITSELF : OTHER;
}

static enum kind kind_of_socket(const char *table, unsigned long inode)
{
	for (const char *line = table; (line = strchr(line, '\n')); line++) {
		unsigned int flags;
		unsigned long each;
		char path[128] = "";
		int type;

		if (sscanf(line + 1, "%*[^:]: %*x %*x %x %x %*x %lu%127[^\n]", &flags, &type, &each,
			   path) >= 3 &&
		    each == inode)
			return kind_of(flags, type, path);
	}
	return OTHER;
}

static char *sockets(void)
{
	FILE *from = fopen("/proc/net/unix", "re"), *to;
	char *text = NULL, buffer[4096];
	size_t size, got;

	assert_non_null(from);
	to = open_memstream(&text, &size);
	while ((got = fread(buffer, 1, sizeof(buffer), from)))
		fwrite(buffer, 1, got, to);
	fclose(to);
	fclose(from);
	return text;
}

/* -1: it asks itself right now. */
static int count(void)
{
	char folder[64], path[sizeof(folder) + 256], target[64], *table = sockets();
	struct dirent *entry;
	bool asks = false;
	int many = 0;
	DIR *directory;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", raw_here.pid);
	directory = opendir(folder);
	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		enum kind kind = OTHER;
		unsigned long inode;
		ssize_t length;

		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (sscanf(target, "socket:[%lu]", &inode) == 1)
			kind = kind_of_socket(table, inode);
		many += kind != FRESH_LISTENER;
		asks = asks || kind == ASKS_ITSELF;
	}
	closedir(directory);
	free(table);
	return asks ? -1 : many;
}

int daemon_fds(void)
{
	long long begin = raw_now_ms();
	int now;

	while ((now = count()) < 0) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("the daemon does not get to hear itself");
		raw_sleep_ms(1);
	}
	return now;
}
