/* SPDX-License-Identifier: MIT */
#include "manager.h"

#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"
#include "shelf.h"

char manager_path[128], manager_told[NOTIFY_MESSAGE + 1];
struct manager_kept manager_kept[MANAGER_KEPT_MAX];
int manager_count;
static int manager = -1;

void manager_close(void)
{
	close(manager);
}

void manager_add(const char *name)
{
	strcpy(manager_kept[manager_count].name, name);
	manager_kept[manager_count++].fd = shelf_make(1000);
}

void manager_listen(const char *where)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t length = strlen(where);

	snprintf(manager_path, sizeof(manager_path), "%s", where);
	memcpy(at.sun_path, where, length);
	if (*where == '@')
		at.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(manager, (const struct sockaddr *)&at,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
			 0);
}

static void forget(const char *name)
{
	for (int i = manager_count - 1; i >= 0; i--) {
		if (strcmp(manager_kept[i].name, name) != 0)
			continue;
		close(manager_kept[i].fd);
		manager_kept[i] = manager_kept[--manager_count];
	}
}

bool manager_hear(int timeout_ms)
{
	struct pollfd event = {.fd = manager, .events = POLLIN};
	char name[64] = "";
	const char *field;
	int fds[FDS_MAX];
	size_t size, count;

	if (poll(&event, 1, timeout_ms) != 1)
		return false;
	assert_int_equal(
	    fds_receive_bytes(manager, manager_told, sizeof(manager_told) - 1, &size, fds, &count),
	    0);
	manager_told[size] = '\0';
	field = strstr(manager_told, "FDNAME=");
	if (field)
		sscanf(field, "FDNAME=%63[^\n]", name);
	if (strstr(manager_told, "FDSTOREREMOVE=1")) {
		assert_int_equal(count, 0);
		forget(name);
	} else if (strstr(manager_told, "FDSTORE=1")) {
		assert_int_equal(count, 1);
		assert_null(strchr(name, ':'));
		strcpy(manager_kept[manager_count].name, name);
		manager_kept[manager_count++].fd = fds[0];
	} else {
		fds_close(fds, count);
	}
	return true;
}

void manager_hear_all(void)
{
	while (manager_hear(0))
		;
}

int manager_set_up(void **state)
{
	if (shelf_set_up(state))
		return -1;
	manager_count = 0;
	manager_listen(shelf_path("notify"));
	return 0;
}

int manager_tear_down(void **state)
{
	while (manager_count)
		close(manager_kept[--manager_count].fd);
	manager_close();
	return shelf_tear_down(state);
}

int manager_start(const char *store_size, int (*act)(void))
{
	char names[MANAGER_KEPT_MAX * (sizeof(manager_kept->name) + 1)] = "", text[32];
	int status;
	pid_t pid = raw_fork();

	if (pid) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	for (int i = 0; i < manager_count; i++) /* out of the way first */
		manager_kept[i].fd = fcntl(manager_kept[i].fd, F_DUPFD, 100);
	for (int i = 0; i < manager_count; i++) {
		dup2(manager_kept[i].fd, 3 + i);
		strcat(strcat(names, i ? ":" : ""), manager_kept[i].name);
		close(manager_kept[i].fd);
	}
	if (manager_count) {
		setenv("LISTEN_FDNAMES", names, 1);
		sprintf(text, "%d", manager_count);
		setenv("LISTEN_FDS", text, 1);
		sprintf(text, "%d", getpid());
		setenv("LISTEN_PID", text, 1);
	}
	setenv("NOTIFY_SOCKET", manager_path, 1);
	unsetenv("SYSTEMD_EXEC_PID");
	if (store_size)
		setenv("FDSTORE", store_size, 1);
	status = act();
	fflush(NULL);
	_exit(status);
}
