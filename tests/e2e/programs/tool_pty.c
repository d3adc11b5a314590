/* SPDX-License-Identifier: MIT */
/*
 * Runs a program on a terminal: tool_pty ROWSxCOLUMNS STEP... -- PROGRAM [ARGUMENT]...
 *   see=TEXT     wait until the program has printed TEXT, after what earlier steps have seen
 *   unseen=TEXT  fail if it has printed TEXT since then
 *   send=TEXT    type TEXT; \e \r \n \xHH are escape, return, newline, a byte in hexadecimal
 *   size=RxC     change the terminal's size
 *   kill=N       send signal N
 *   touch=FILE   create FILE, so that the test knows that this step is reached
 *   raw, cooked  wait until the terminal is in raw mode (no echo, no lines), or no longer
 *   end=N        wait until the program ends with exit code N; -N: by signal N
 * At the end, prints all that the program printed. Exit code 1: a step failed; stderr says which.
 */
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 20
#define TAKE_MS 20

static int terminal;
static pid_t program;
static char printed[4 << 20];
static size_t length, seen;

static void fail(const char *step, const char *why)
{
	fprintf(stderr, "tool_pty: %s: %s; on the terminal since then:\n", step, why);
	fwrite(printed + seen, 1, length - seen, stderr);
	fputc('\n', stderr);
	kill(program, SIGKILL);
	exit(1);
}

/* Read what the program prints, until nothing comes for TAKE_MS. */
static void take(void)
{
	struct pollfd more = {.fd = terminal, .events = POLLIN};
	ssize_t size;

	while (length < sizeof(printed) && poll(&more, 1, TAKE_MS) > 0) {
		size = read(terminal, printed + length, sizeof(printed) - length);
		if (size <= 0)
			return;
		length += (size_t)size;
	}
}

static int step_see(const char *text)
{
	char *at = memmem(printed + seen, length - seen, text, strlen(text));

	if (at)
		seen = (size_t)(at - printed) + strlen(text);
	return at != NULL;
}

static int step_is(int raw)
{
	struct termios now;

	return !tcgetattr(terminal, &now) && (now.c_lflag & (ICANON | ECHO) ? 0 : 1) == raw;
}

static int step_end(int wanted)
{
	int status;

	if (waitpid(program, &status, WNOHANG) <= 0)
		return 0;
	if ((WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)) != wanted)
		fail("end", WIFSIGNALED(status) ? "it was ended by a signal" : "another exit code");
	return 1;
}

static void send_keys(const char *text)
{
	for (; *text; text++) {
		char key = *text;
		unsigned int code;

		if (key == '\\' && text[1]) {
			text++;
			key = *text == 'e'   ? '\033'
			      : *text == 'r' ? '\r'
			      : *text == 'n' ? '\n'
					     : *text;
			if (*text == 'x' && sscanf(text + 1, "%2x", &code) == 1) {
				key = (char)code;
				text += 2;
			}
		}
		if (write(terminal, &key, 1) != 1)
			fail("send", "the terminal takes nothing");
	}
}

static int parse_size(const char *text, struct winsize *out)
{
	return sscanf(text, "%hux%hu", &out->ws_row, &out->ws_col) == 2;
}

static void set_size(const char *text)
{
	struct winsize size = {0};

	if (!parse_size(text, &size) || ioctl(terminal, TIOCSWINSZ, &size))
		fail(text, "no size");
}

static void touch(const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file)
		fail(path, "can't be made");
	fclose(file);
}

/* Return 1 if the step is done, 0 if it must be tried again. */
static int step(const char *word)
{
	const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";

	if (!strncmp(word, "see=", 4))
		return step_see(value);
	if (!strncmp(word, "end=", 4))
		return step_end(atoi(value));
	if (!strcmp(word, "raw") || !strcmp(word, "cooked"))
		return step_is(*word == 'r');
	if (!strncmp(word, "unseen=", 7)) {
		if (step_see(value))
			fail(word, "it was printed");
	} else if (!strncmp(word, "send=", 5)) {
		send_keys(value);
	} else if (!strncmp(word, "size=", 5)) {
		set_size(value);
	} else if (!strncmp(word, "kill=", 5)) {
		kill(program, atoi(value));
	} else if (!strncmp(word, "touch=", 6)) {
		touch(value);
	} else {
		fail(word, "there is no such step");
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct winsize size = {0};
	int at = 2;

	for (; at < argc && strcmp(argv[at], "--") != 0; at++)
		;
	if (at + 1 >= argc || !parse_size(argv[1], &size))
		return 2;
	program = forkpty(&terminal, NULL, NULL, &size);
	if (program < 0)
		return 2;
	if (!program) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[at + 1], argv + at + 1);
		_exit(127);
	}
	for (int i = 2; i < at; i++) {
		time_t end = time(NULL) + PATIENCE_S;

		do
			take();
		while (!step(argv[i]) &&
		       (time(NULL) <= end || (fail(argv[i], "it did not come"), 0)));
	}
	take();
	kill(program, SIGKILL);
	fwrite(printed, 1, length, stdout);
	return 0;
}
