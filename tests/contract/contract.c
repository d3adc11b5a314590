/* SPDX-License-Identifier: MIT */
/* The processes of a case, and the messages between them. */
#include "contract.h"

#include <sys/mount.h>
#include <sys/pidfd.h>

#define EXIT_FAILED 1
#define EXIT_SKIPPED 77
#define SECONDS 60 /* time limit for each process of a case */

static int owner_pidfd = -1;
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};

static _Noreturn void end(int code)
{
	fflush(NULL);
	_exit(code); /* don't run the test program's exit handlers in a role's process */
}

static pid_t start(contract_role *role, int mine, int theirs)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Otherwise cmocka's handler would run the next case in this child. */
	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
		signal(crashes[i], SIG_DFL);
	alarm(SECONDS);
	if (theirs >= 0)
		close(theirs);
	setenv("GPUSHARE_SIM_DEVICES", "2", 0); /* a real driver ignores this */
	role(mine);
	end(0);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static bool skipped(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
}

static void assert_ended_well(const char *who, int status, bool is_killed)
{
	if (is_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	if (WIFSIGNALED(status))
		fail_msg("the %s was ended by signal %d (%s)", who, WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the %s failed", who);
	if (is_killed)
		fail_msg("the %s was to be killed", who);
}

static void run_alone(const struct contract_case *its)
{
	pid_t pid = start(its->owner, -1, -1);
	int status;

	assert_true(pid > 0);
	status = wait_for(pid);
	if (skipped(status))
		skip();
	assert_ended_well("process", status, its->owner_is_killed);
}

static void run_pair(const struct contract_case *its)
{
	int ends[2], owner_status, importer_status;
	pid_t owner, importer;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	owner = start(its->owner, ends[0], ends[1]);
	assert_true(owner > 0);
	owner_pidfd = pidfd_open(owner, 0);
	importer = start(its->importer, ends[1], ends[0]);
	close(ends[0]);
	close(ends[1]);
	owner_status = wait_for(owner);
	importer_status = importer > 0 ? wait_for(importer) : -1;
	close(owner_pidfd);
	if (skipped(owner_status) || skipped(importer_status))
		skip();
	assert_ended_well("owner", owner_status, its->owner_is_killed);
	assert_ended_well("importer", importer_status, false);
}

void contract_run(void **state)
{
	const struct contract_case *its = *state;

	if (its->importer)
		run_pair(its);
	else
		run_alone(its);
}

void contract_in_child(contract_role *role, int peer)
{
	pid_t pid = start(role, peer, -1);
	int status;

	CHECK(pid > 0);
	status = wait_for(pid);
	if (skipped(status))
		end(EXIT_SKIPPED);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void contract_expect(const char *file, int line, const char *call, cu_result expected,
		     cu_result result)
{
	if (result == expected)
		return;
	fprintf(stderr, "%s:%d: %s: %s, not %s\n", file, line, call,
		driver_error_name(contract_load(), result),
		driver_error_name(contract_load(), expected));
	end(EXIT_FAILED);
}

void contract_check(const char *file, int line, const char *condition, bool holds)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
	end(EXIT_FAILED);
}

void contract_skip(const char *why)
{
	fprintf(stderr, "skipped: %s\n", why);
	end(EXIT_SKIPPED);
}

void contract_leave_namespaces(int which)
{
	if (unshare(which | CLONE_NEWNS) < 0) {
		CHECK(errno == EPERM || errno == ENOSPC || errno == EINVAL);
		contract_skip("unshare(2) is not permitted");
	}
	/* In a chroot, "/" is not a mount point. */
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		CHECK(errno == EINVAL || errno == EPERM || errno == EACCES);
		contract_skip("mount(2) of \"/\" is refused");
	}
	CHECK(mount("none", "/dev/shm", "tmpfs", 0, NULL) == 0);
}

void contract_send(int peer, const void *data, size_t size)
{
	CHECK(send(peer, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

void contract_receive(int peer, void *data, size_t size)
{
	CHECK(recv(peer, data, size, MSG_WAITALL) == (ssize_t)size);
}

void contract_tell(int peer)
{
	contract_send(peer, "!", 1);
}

void contract_hear(int peer)
{
	char byte;

	contract_receive(peer, &byte, 1);
}

union fd_message {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static struct msghdr fd_message(union fd_message *control, struct iovec *content)
{
	static char byte;

	*content = (struct iovec){&byte, 1};
	return (struct msghdr){.msg_iov = content,
			       .msg_iovlen = 1,
			       .msg_control = control,
			       .msg_controllen = sizeof(*control)};
}

void contract_send_fd(int peer, int fd)
{
	union fd_message control = {0};
	struct iovec content;
	struct msghdr message = fd_message(&control, &content);

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	CHECK(sendmsg(peer, &message, MSG_NOSIGNAL) == 1);
}

int contract_receive_fd(int peer)
{
	union fd_message control = {0};
	struct iovec content;
	struct msghdr message = fd_message(&control, &content);
	int fd = -1;

	CHECK(recvmsg(peer, &message, MSG_CMSG_CLOEXEC) == 1);
	CHECK(CMSG_FIRSTHDR(&message) != NULL);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	CHECK(fd >= 0);
	return fd;
}

/*
 * A pidfd becomes readable after the process has closed its files, the driver's included. The end
 * of the socket would not show that.
 */
void contract_await_owner_end(void)
{
	struct pollfd owner = {.fd = owner_pidfd, .events = POLLIN};

	CHECK(poll(&owner, 1, SECONDS * 1000) == 1);
}
