/* SPDX-License-Identifier: MIT */
/* The terminal while top uses it. Signals are unblocked only in the wait, so that no signal is
 * lost between checking its flag and waiting. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "top.h"

#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

/* X(signal): signals that end top */
#define ENDS(X) X(SIGINT) X(SIGTERM) X(SIGHUP) X(SIGQUIT)

static struct termios before;
static sigset_t outside; /* signal mask before top_terminal_begin() */
static bool entered, readable;
static volatile sig_atomic_t ended_by, stopped, changed;

static void on_end(int number)
{
	ended_by = number;
}

static void on_stop(int number)
{
	(void)number;
	stopped = 1;
}

/* The size changed (SIGWINCH), or the process was continued (SIGCONT). */
static void on_change(int number)
{
	changed = number;
}

void top_terminal_write(const char *text, size_t size)
{
	while (size) {
		ssize_t wrote = write(STDOUT_FILENO, text, size);

		if (wrote < 0 && errno != EINTR)
			/* the terminal is gone: SIGHUP or the end of the input will report it */
			return;
		if (wrote > 0) {
			text += wrote;
			size -= (size_t)wrote;
		}
	}
}

/* Read key by key without echo. ISIG stays, so that Ctrl-C and Ctrl-Z still send signals. */
static void enter(void)
{
	struct termios raw = before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (readable)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	top_terminal_write(ENTER, strlen(ENTER));
	entered = true;
}

static void leave(void)
{
	if (!entered)
		return;
	entered = false;
	top_terminal_write(LEAVE, strlen(LEAVE));
	if (readable)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void handle(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(number, &action, NULL);
}

bool top_terminal_begin(void)
{
	sigset_t ours;

	if (!isatty(STDOUT_FILENO))
		return false;
	readable = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before);
	sigemptyset(&ours);
#define X(number) sigaddset(&ours, number);
	ENDS(X)
	X(SIGTSTP)
	X(SIGWINCH)
	X(SIGCONT)
#undef X
	sigprocmask(SIG_BLOCK, &ours, &outside);
#define X(number) handle(number, on_end);
	ENDS(X)
#undef X
	handle(SIGTSTP, on_stop);
	handle(SIGWINCH, on_change);
	handle(SIGCONT, on_change);
	enter();
	return true;
}

/* Raise the signal with its default action, as if top had no handler. */
static void raise_plainly(int number)
{
	sigset_t only;

	handle(number, SIG_DFL);
	raise(number);
	sigemptyset(&only);
	sigaddset(&only, number);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	sigprocmask(SIG_BLOCK, &only, NULL);
}

void top_terminal_end(void)
{
	leave();
	if (ended_by)
		raise_plainly(ended_by);
	sigprocmask(SIG_SETMASK, &outside, NULL);
}

static void stop(void)
{
	stopped = 0;
	leave();
	raise_plainly(SIGTSTP);
	handle(SIGTSTP, on_stop);
	changed = SIGCONT;
}

bool top_terminal_redraw(void)
{
	int what = changed;

	changed = 0;
	if (what == SIGCONT)
		enter();
	return what != 0;
}

bool top_terminal_ended(void)
{
	return ended_by != 0;
}

size_t top_terminal_wait(uint64_t deadline_ms, char *typed, size_t room)
{
	struct pollfd input = {.fd = readable ? STDIN_FILENO : -1, .events = POLLIN};
	uint64_t now = top_now_ms(), left = deadline_ms > now ? deadline_ms - now : 0;
	struct timespec patience = {.tv_sec = (time_t)(left / 1000),
				    .tv_nsec = (long)(left % 1000) * 1000000};
	ssize_t size = 0;

	if (ppoll(&input, 1, &patience, &outside) > 0) {
		size = read(STDIN_FILENO, typed, room);
		if (size <= 0) /* end of input: the terminal is gone */
			ended_by = SIGHUP;
	}
	if (stopped)
		stop();
	return size > 0 ? (size_t)size : 0;
}
