/* SPDX-License-Identifier: MIT */
/* ncurses and signals. Signals are unblocked only while top waits for a key. So no signal is lost
 * between the check of its flag and the wait, and ncurses's handlers interrupt nothing else. */
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <curses.h>

#include "common/terminal.h"
#include "top.h"

#include <term.h> /* last, because its macros have names like `columns` */

/* how long to wait for the rest of an escape sequence; ncurses's default is a second */
#define ESCAPE_MS 50

/* X(signal): signals that end top */
#define ENDS(X) X(SIGINT) X(SIGTERM) X(SIGHUP) X(SIGQUIT)

static sigset_t outside; /* signal mask before top_terminal_begin() */
static struct pollfd input = {.events = POLLIN};
static volatile sig_atomic_t ended_by, continued;

static void on_signal(int number)
{
	if (number == SIGCONT)
		continued = 1;
	else
		ended_by = number;
}

static void handle(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(number, &action, NULL);
}

/* If terminfo doesn't describe the terminal, or says that it can't move the cursor (TERM=dumb), use
 * xterm's description, because most terminals understand xterm's sequences. */
static const char *terminal_type(void)
{
	const char *type = getenv("TERM");
	bool able;
	int error;

	if (!type || setupterm(type, STDOUT_FILENO, &error) != OK)
		return "xterm";
	able = cursor_address != NULL;
	del_curterm(cur_term);
	return able ? type : "xterm";
}

static bool start_ncurses(void)
{
	setlocale(LC_CTYPE, "");
	unsetenv("LINES"); /* else ncurses doesn't ask the terminal for its size */
	unsetenv("COLUMNS");
	set_escdelay(ESCAPE_MS);
	if (!newterm(terminal_type(), stdout, input.fd == STDIN_FILENO ? stdin : stdout))
		return false;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	define_key("\033[A", KEY_UP); /* sent by terminals that don't know keypad mode */
	define_key("\033[B", KEY_DOWN);
	define_key("\033[H", KEY_HOME);
	if (terminal_has_colour(STDOUT_FILENO) && start_color() == OK &&
	    use_default_colors() == OK) {
		init_pair(STYLE_RED, COLOR_RED, -1);
		init_pair(STYLE_GREEN, COLOR_GREEN, -1);
		init_pair(STYLE_YELLOW, COLOR_YELLOW, -1);
	}
	return true;
}

bool top_terminal_begin(void)
{
	sigset_t ours;

	if (!isatty(STDOUT_FILENO))
		return false;
	input.fd = isatty(STDIN_FILENO) ? STDIN_FILENO : STDOUT_FILENO;
	sigemptyset(&ours);
#define X(number) sigaddset(&ours, number);
	ENDS(X)
	X(SIGTSTP)
	X(SIGWINCH)
	X(SIGCONT)
#undef X
	sigprocmask(SIG_BLOCK, &ours, &outside);
	if (!start_ncurses()) {
		sigprocmask(SIG_SETMASK, &outside, NULL);
		return false;
	}
#define X(number) handle(number, on_signal);
	ENDS(X)
	X(SIGCONT)
#undef X
	return true;
}

void top_terminal_end(void)
{
	endwin();
	if (ended_by) {
		handle(ended_by, SIG_DFL);
		raise(ended_by);
	}
	sigprocmask(SIG_SETMASK, &outside, NULL);
}

bool top_terminal_ended(void)
{
	return ended_by != 0;
}

int top_terminal_key(uint64_t deadline_ms)
{
	uint64_t now = tool_now_ms(), left = deadline_ms > now ? deadline_ms - now : 0;
	struct timespec patience = {.tv_sec = (time_t)(left / 1000),
				    .tv_nsec = (long)(left % 1000) * 1000000};
	int key = getch();

	if (key != ERR)
		return key;
	input.revents = 0;
	ppoll(&input, 1, &patience, &outside);
	if (continued) { /* the shell may have changed the terminal's modes while top was stopped */
		continued = 0;
		endwin();
		return KEY_RESIZE;
	}
	key = getch();
	if (key == ERR && input.revents) /* end of input: the terminal is gone */
		ended_by = SIGHUP;
	return key;
}
