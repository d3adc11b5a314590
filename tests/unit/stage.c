/* SPDX-License-Identifier: MIT */
#include "stage.h"

#include "unit.h"

#include "protocol.h"

#define PATIENCE_S 60

static char directory[64]; /* of this test's registry */
static pid_t emulated_registry;
static int other = -1; /* a part's socket to the other part */

bool stage_is_emulated(void)
{
	return getenv("EMULATOR") && *getenv("EMULATOR");
}

static void skip_emulated(const char *why)
{
	if (!stage_is_emulated())
		return;
	fprintf(stderr, "skipped: qemu-user %s\n", why);
	skip();
}

void stage_needs_autostart(void)
{
	skip_emulated("refuses autostart's clone()");
}

void stage_needs_own_proc(void)
{
	skip_emulated("serves /proc/self from memory files of its own");
}

void stage_init(char **argv)
{
	char self[PATH_MAX], program[PATH_MAX], path[PATH_MAX + 64];
	const char *before = getenv("LD_LIBRARY_PATH"), *build = getenv("BUILD");
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		abort();
	self[length] = '\0';
	strcpy(program, self);
	*strrchr(self, '/') = '\0'; /* BUILD/tests */
	*strrchr(self, '/') = '\0';
	snprintf(path, sizeof(path), "%s/gpushare-registry",
		 stage_is_emulated() && build ? build : self);
	setenv("GPUSHARE_REGISTRY", path, 1);
	unsetenv("GPUSHARE_AUTOSTART");
	unsetenv("GPUSHARE_TIMEOUT_MS");
	snprintf(path, sizeof(path), "%s/sim", self);
	if (before && !strcmp(before, path))
		return;
	setenv("LD_LIBRARY_PATH", path, 1);
	/* not /proc/self/exe: the command's name would be "exe" */
	execv(stage_is_emulated() ? argv[0] : program, argv);
	perror("starting again with the simulated driver");
	_exit(1);
}

static int dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s/registry.sock", directory);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

int stage_registry(void)
{
	uint8_t greeting[SP_GREETING_SIZE];
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	int fd = dial();

	if (fd < 0)
		return 0;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	/* Greet before closing: peers that leave without a greeting are tested elsewhere. */
	sp_greeting(greeting, SP_REQ);
	if (send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting) ||
	    recv(fd, greeting, sizeof(greeting), MSG_WAITALL) != sizeof(greeting))
		peer.pid = 0;
	close(fd);
	return peer.pid;
}

void stage_end_registry(void)
{
	int fd, pid = stage_registry();

	if (pid > 0)
		kill(pid, SIGKILL);
	while ((fd = dial()) >= 0) {
		close(fd);
		poll(NULL, 0, 1);
	}
}

/* Under an emulator the client can't start a registry, so the stage does. */
static int start_registry(void)
{
	const char *program = getenv("GPUSHARE_REGISTRY");
	int tries = 1000;

	emulated_registry = fork();
	if (!emulated_registry) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "--dir", directory, NULL);
		perror(program);
		_exit(127);
	}
	while (!stage_registry())
		if (emulated_registry < 0 || !--tries || poll(NULL, 0, 5) < 0)
			return -1;
	return 0;
}

int stage_open(void **state)
{
	unsetenv("GPUSHARE_SIM_LOG");
	strcpy(directory, "/tmp/gpushare-unit.XXXXXX");
	if (!mkdtemp(directory) || setenv("GPUSHARE_DIR", directory, 1))
		return -1;
	return stage_is_emulated() ? start_registry() : 0;
}

int stage_close(void **state)
{
	char command[128];
	int tries = 0;

	stage_end_registry();
	if (emulated_registry > 0)
		waitpid(emulated_registry, NULL, 0);
	/* A keeper, or a registry that is just starting, may still create files there. */
	snprintf(command, sizeof(command), "rm -rf '%s' 2>/dev/null", directory);
	while (system(command) && ++tries < 500)
		poll(NULL, 0, 10);
	return tries < 500 ? 0 : -1;
}

static pid_t part_start(void (*part)(void), int mine, int theirs)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	close(theirs);
	other = mine;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(PATIENCE_S);
	part();
	exit(0); /* not _exit(): the leak checker runs in exit() */
}

static void part_end(pid_t pid, const char *which)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	if (WIFSIGNALED(status))
		fail_msg("the %s part was ended by signal %d", which, WTERMSIG(status));
	if (WEXITSTATUS(status))
		fail_msg("the %s part ended with exit code %d", which, WEXITSTATUS(status));
}

void stage_play(void (*first)(void), void (*second)(void))
{
	int line[2];
	pid_t one, two = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line), 0);
	one = part_start(first, line[0], line[1]);
	if (second)
		two = part_start(second, line[1], line[0]);
	close(line[0]);
	close(line[1]);
	assert_true(one > 0 && two >= 0);
	part_end(one, "first");
	if (second)
		part_end(two, "second");
}

void stage_test(void **state)
{
	stage_part **parts = *state;

	if (parts[2])
		parts[2]();
	stage_play(parts[0], parts[1]);
}

void part_fail(const char *file, int line, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(1);
}

void say(void)
{
	if (send(other, "!", 1, MSG_NOSIGNAL) != 1)
		part_fail(__FILE__, __LINE__, "the other part is gone");
}

void hear(void)
{
	char heard;

	if (recv(other, &heard, 1, 0) != 1)
		part_fail(__FILE__, __LINE__, "the other part is gone");
}

void part_status(const char *file, int line, const char *call, int status, int wanted,
		 const char *words)
{
	const char *why = gpushare_explain();

	if (status != wanted)
		part_fail(file, line, "%s answered %d (%s: %s), not %d", call, status,
			  gpushare_status_text(status), why, wanted);
	if (words && !strstr(why, words))
		part_fail(file, line, "%s: \"%s\" does not hold \"%s\"", call, why, words);
}

const struct driver *part_driver(void)
{
	static cu_context context;
	char why[256];
	const struct driver *driver = driver_open(why, sizeof(why));

	if (!driver)
		part_fail(__FILE__, __LINE__, "%s", why);
	if (!context) {
		CHECK(driver->cuDevicePrimaryCtxRetain(&context, 0) == CU_OK);
		CHECK(driver->cuCtxSetCurrent(context) == CU_OK);
	}
	return driver;
}

struct gpushare_session *part_session(void)
{
	const struct gpushare_open_options options = {.timeout_ms = 5000};
	struct gpushare_session *session = NULL;

	OK(gpushare_open(&options, &session));
	CHECK(session != NULL);
	return session;
}

unsigned char *part_pattern(size_t size, unsigned int seed)
{
	unsigned char *bytes = malloc(size);

	CHECK(bytes != NULL);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
	return bytes;
}
