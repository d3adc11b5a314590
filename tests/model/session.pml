/* SPDX-License-Identifier: MIT */
/*
 * Sessions, generations, and what outlives a registry: see README.md for what stands for what, and for
 * the claims. One name, so that all that is shared gets into each other's way. A request is one step,
 * as in the daemon, which has one lock, and writes its records before it answers; the answer may be
 * lost. Sets of generations are bits. BREAK_<what> leaves a part of the protocol out.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef LAST
#define LAST 3	/* generations 1..LAST; then nothing new is shared */
#endif
#define SLOTS (2 * CLIENTS) /* sessions: two of each client, one of which it has lost */
#define CLIENT(slot) ((slot) / 2)
#define BIT(g) (1 << (g))
#define HAS(set, g) (((set) >> (g)) & 1)

mtype = { NONE, OPEN, LINGERS, GHOST };

/* The registry: gone with it. */
bool up, dirty;
byte next, named, nameless, deferred, unsynced, missing;
byte gone;		/* buffer_has_gone(): since the records began, but for what was lost */
byte owner[LAST + 1];	/* slot + 1; 0: nobody, kept */
mtype session[SLOTS];
byte attached[SLOTS];

/* registry.state, the keeper. */
bool has_records;
byte j_named, j_nameless, j_deferred, j_untold;
byte j_owner[LAST + 1];
bool j_session[SLOTS];
byte j_attached[SLOTS];
byte keeper;

/* Clients: processes, and what they believe. */
bool alive[CLIENTS];
bool told[CLIENTS];
byte conn[CLIENTS];	/* slot + 1; 0: none */
byte key[CLIENTS];	/* slot + 1 of the session that it can be resumed by; 0: nobody knows it any more */
byte own[CLIENTS], use[CLIENTS], held[CLIENTS], want[CLIENTS];
byte freeing[CLIENTS];	/* not told of any more, and not withdrawn so far */

/* What is true, whoever knows it. */
byte keeps;		/* shared with KEEP */
byte given, twice;
byte promised;		/* kept, until somebody takes it away */
bool keeper_died;
byte crashes, cuts;
byte x_lost;		/* of lose() */

#define ATTACHED_0 (attached[0] | attached[1] | attached[2] | attached[3])
#if CLIENTS == 3
#define ALL_ATTACHED (ATTACHED_0 | attached[4] | attached[5])
#else
#define ALL_ATTACHED ATTACHED_0
#endif

/* Claim 3, between any two steps. A set's bits are read from the lowest generation up. */
inline judge() {
	if
	:: up && !twice -> /* else claim 1 has its say */
		assert(!named || owner[named] || HAS(keeps, named));
		g = 1;
		do
		:: g > LAST -> break
		:: else ->
			assert(!HAS(nameless, g) || owner[g]);
			assert(!owner[g] || session[owner[g] - 1] != NONE);
			/* Claim 2 */
			assert(!HAS(promised, g) || named == g);
			assert(!HAS(promised, g) || HAS(missing, g) || HAS(keeper, g));
			g++
		od;
		g = 0
	:: else
	fi
}

inline copy() {
	j_named = named; j_nameless = nameless; j_deferred = deferred; j_untold = unsynced;
	g = 0;
	do
	:: g > LAST -> break
	:: else -> j_owner[g] = owner[g]; g++
	od;
	i = 0;
	do
	:: i == SLOTS -> break
	:: else -> j_session[i] = (session[i] != NONE); j_attached[i] = attached[i]; i++
	od;
	g = 0; i = 0;
	has_records = true; dirty = false
}

/* save_flush() */
inline note() {
#ifdef BREAK_RECORD_BEFORE_ANSWER
	dirty = true
#else
	copy()
#endif
}

/* buffer_end() */
inline drop(x) {
	if
	:: named == x -> named = 0
	:: else
	fi;
	nameless = nameless & ~BIT(x); deferred = deferred & ~BIT(x); unsynced = unsynced & ~BIT(x);
	missing = missing & ~BIT(x); keeper = keeper & ~BIT(x); gone = gone | BIT(x);
	owner[x] = 0;
	/* Who has it still will hear that there is no such thing: of no consequence any more. */
	i = 0;
	do
	:: i == SLOTS -> break
	:: else -> attached[i] = attached[i] & ~BIT(x); i++
	od;
	i = 0
}

/* buffer_lose(): nobody is left who could bring it back, as far as the registry knows. */
inline lose() {
	if
	:: named && HAS(missing, named) && !owner[named] && !HAS(ALL_ATTACHED, named) ->
		assert(keeper_died || twice);
		promised = promised & ~BIT(named);
		x_lost = named;
		drop(x_lost);
		gone = gone & ~BIT(x_lost);
		x_lost = 0
	:: else
	fi
}

/* buffer_part() */
inline part(x) {
	if
#ifndef BREAK_KEEP
	:: named == x && HAS(keeps, x) -> owner[x] = 0; lose()
#endif
	:: else -> drop(x)
	fi
}

/* state_leave() */
inline end_session(s) {
	g = 1;
	do
	:: g > LAST -> break
	:: else ->
		if
		:: owner[g] == s + 1 -> part(g)
		:: else
		fi;
		g++
	od;
	g = 0;
	attached[s] = 0;
	lose();
	session[s] = NONE;
	if
	:: key[CLIENT(s)] == s + 1 -> key[CLIENT(s)] = 0
	:: else
	fi
}

/* state.generation, in buffer.c: start() */
inline take(x) {
	next++;
	x = next;
	twice = twice | (given & BIT(x));
	given = given | BIT(x)
}

inline enter(x, s) {
	named = x;
	owner[x] = s + 1;
	if
	:: HAS(keeps, x) -> keeper = keeper | BIT(x); promised = promised | BIT(x)
	:: else
	fi
}

/* Its connection is lost; the registry hears of it later. */
inline cut(c) {
	session[conn[c] - 1] = LINGERS;
	conn[c] = 0; told[c] = false; want[c] = 0
}

#define CAN_CUT (cuts < CUTS)
/* The answer comes, or never does. */
#define ANSWERED(c, what) \
	if \
	:: what \
	:: CAN_CUT -> cuts++; cut(c) \
	fi

#define WORKS(c) (alive[c] && up && conn[c] && told[c])

/* handle_share(): has_ended() */
inline bury() {
	if
	:: named && owner[named] && !alive[CLIENT(owner[named] - 1)] -> x = named; part(x)
	:: else
	fi
}

/* handle_share(): new, in place of what is kept, or that adopted. */
inline share(c, keep) {
	s = conn[c] - 1;
	bury();
	if
	:: !named && next < LAST ->
		take(x);
		keeps = keeps | (keep << x);
		enter(x, s)
	:: named && !owner[named] && next < LAST -> /* buffer_add() */
		promised = promised & ~BIT(named);
		x = named;
		drop(x);
		take(x);
		keeps = keeps | (keep << x);
		enter(x, s)
	:: named && !owner[named] && keep && !HAS(missing, named) -> /* adopt() */
		x = named;
		owner[x] = s + 1
	:: else -> x = 0
	fi;
	note();
	if
	:: x -> ANSWERED(c, own[c] = own[c] | BIT(x))
	:: else
	fi;
	x = 0; s = 0
}

inline attach(c) {
	s = conn[c] - 1;
	/* Claim 1 */
	assert(!HAS(twice, named));
	attached[s] = attached[s] | BIT(named);
	x = named;
	note();
	ANSWERED(c, use[c] = use[c] | BIT(x));
	x = 0; s = 0
}

inline detach(c, y) {
	use[c] = use[c] & ~BIT(y);
	if
	:: WORKS(c) ->
		attached[conn[c] - 1] = attached[conn[c] - 1] & ~BIT(y);
		lose();
		note()
	:: else
	fi
}

/* handle_withdraw() of a generation, with `deferred`. */
inline withdraw(c, y) {
	s = conn[c] - 1;
	x = 0;
	if
	:: owner[y] == s + 1 && HAS(keeps, y) && named == y -> part(y)
	:: owner[y] == s + 1 && !HAS(keeps, y) && HAS(ALL_ATTACHED, y) ->
		if
		:: named == y -> named = 0
		:: else
		fi;
		nameless = nameless | BIT(y); deferred = deferred | BIT(y); unsynced = unsynced & ~BIT(y);
		x = y
	:: owner[y] == s + 1 && (HAS(nameless, y) || (!HAS(keeps, y) && !HAS(ALL_ATTACHED, y))) -> drop(y)
	:: else
	fi;
	note();
	ANSWERED(c, if :: x -> held[c] = held[c] | BIT(x) :: else fi);
	freeing[c] = 0;
	x = 0; s = 0
}

inline unlink() {
	promised = promised & ~BIT(named);
	if
	:: owner[named] -> /* buffer_defer() */
		nameless = nameless | BIT(named);
		keeper = keeper & ~BIT(named); missing = missing & ~BIT(named);
		named = 0
	:: else -> x = named; drop(x); x = 0
	fi;
	note()
}

/* handle_deferred() */
inline ask_deferred(c) {
	s = conn[c] - 1;
	x = 1;
	do
	:: x > LAST -> break
	:: else ->
		if
		:: HAS(held[c], x) && !(HAS(nameless, x) && owner[x] == s + 1 && HAS(ALL_ATTACHED, x)) ->
			held[c] = held[c] & ~BIT(x);
			if
			:: HAS(nameless, x) && owner[x] == s + 1 -> drop(x)
			:: else
			fi
		:: else
		fi;
		x++
	od;
	note();
	x = 0; s = 0
}

/* handle_hello(), resume(): all that the old session has becomes the new one's. */
inline resume(c) {
	s = 2 * c + (session[2 * c] != NONE);
	session[s] = OPEN;
	conn[c] = s + 1;
	if
	:: key[c] ->
		x = key[c] - 1;
		g = 1;
		do
		:: g > LAST -> break
		:: else ->
			if
#ifdef BREAK_MOVE
			:: owner[g] == x + 1 && !HAS(nameless, g) -> owner[g] = s + 1
#else
			:: owner[g] == x + 1 -> owner[g] = s + 1
#endif
			:: else
			fi;
			g++
		od;
		g = 0;
		attached[s] = attached[x];
		attached[x] = 0;
		if
		:: session[x] == GHOST -> session[x] = NONE
		:: else
		fi
	:: else
	fi;
	key[c] = s + 1;
	note();
	x = 0; s = 0
}

/* What was not told of: end_entry(). */
inline leave_out(x) {
	if
	:: HAS(keeps, x) -> part(x)
	:: !HAS(keeps, x) && HAS(ALL_ATTACHED, x) ->
		named = 0; nameless = nameless | BIT(x); unsynced = unsynced | BIT(x)
	:: else -> drop(x)
	fi
}

/* handle_resync(): what is wanted is shared again, one after the other, while others go on. */
inline resync(c) {
	s = conn[c] - 1;
	if
	:: named && HAS(own[c], named) && !owner[named] -> owner[named] = s + 1 /* buffer_return() */
	:: named && !HAS(own[c], named) && owner[named] == s + 1 -> x = named; leave_out(x)
	:: else
	fi;
	attached[s] = use[c];
	lose();
	want[c] = 0;
	x = 1;
	do
	:: x > LAST -> break
	:: else ->
		if
		:: HAS(own[c], x) && HAS(nameless, x) && owner[x] == s + 1 ->
			want[c] = want[c] | (unsynced & BIT(x))
		:: HAS(own[c], x) && !HAS(nameless, x) && (named != x || HAS(missing, x)) ->
			want[c] = want[c] | BIT(x)
		:: HAS(use[c], x) && !HAS(own[c], x) && HAS(keeps, x) &&
		   ((named == x && HAS(missing, x)) || (!named && !HAS(nameless, x) && !HAS(gone, x))) ->
			want[c] = want[c] | BIT(x)
		:: else
		fi;
		x++
	od;
	note();
	if
	:: told[c] = true
	:: CAN_CUT -> cuts++; cut(c)
	fi;
	x = 0; s = 0
}

/* share_again(), as owner, or as one who has it attached. */
inline again(c, y) {
	s = conn[c] - 1;
	want[c] = want[c] & ~BIT(y);
	if
	:: named == y -> /* it is only completed */
		if
		:: HAS(own[c], y) && !owner[y] -> owner[y] = s + 1
		:: else
		fi;
		missing = missing & ~BIT(y);
		keeper = keeper | (keeps & BIT(y))
	:: !named && !HAS(nameless, y) && HAS(own[c], y) -> enter(y, s)
	:: !named && !HAS(nameless, y) && !HAS(own[c], y) && !HAS(gone, y) -> enter(y, s); owner[y] = 0
	:: !named && HAS(nameless, y) && HAS(unsynced, y) && owner[y] == s + 1 -> drop(y); enter(y, s)
	:: else -> own[c] = own[c] & ~BIT(y) /* another has its name, or took it away */
	fi;
	lose();
	note();
	s = 0
}

inline pick(set) {
	y = 1;
	do
	:: HAS(set, y) -> break
	:: y < LAST && (set >> (y + 1)) -> y++
	od
}

proctype client(byte c) {
	byte g, i, s, x, y;

	do
	:: atomic { alive[c] && up && !conn[c] && (session[2 * c] == NONE || session[2 * c + 1] == NONE) ->
		d_step { resume(c); judge() } }
	:: atomic { alive[c] && up && conn[c] && !told[c] -> resync(c); judge() }
	:: atomic { WORKS(c) && want[c] ->
		y = 1;
		do
		:: HAS(want[c], y) -> break
		:: else -> y++
		od;
		again(c, y); judge(); y = 0 }
	:: atomic { WORKS(c) && !want[c] -> share(c, 1); judge() }
	:: atomic { WORKS(c) && !want[c] -> share(c, 0); judge() }
	:: atomic { WORKS(c) && !want[c] && named && !HAS(missing, named) && !HAS(own[c], named) &&
		    !HAS(use[c], named) -> attach(c); judge() }
	:: atomic { WORKS(c) && !want[c] && named -> d_step { unlink(); judge() } }
	:: atomic { WORKS(c) && !want[c] && held[c] -> d_step { ask_deferred(c); judge() } }
	:: atomic { WORKS(c) && freeing[c] -> withdraw(c, freeing[c]); judge() }
	:: atomic { alive[c] && freeing[c] && !(up && conn[c]) -> freeing[c] = 0 }
	:: atomic { alive[c] && use[c] ->
		pick(use[c]);
		detach(c, y); judge(); y = 0 }
	:: atomic { alive[c] && own[c] && !freeing[c] ->
		pick(own[c]);
		own[c] = own[c] & ~BIT(y); want[c] = want[c] & ~BIT(y); freeing[c] = y; y = 0 }
	:: atomic { alive[c] && conn[c] && CAN_CUT -> cuts++; cut(c) }
	:: d_step { alive[c] ->
		alive[c] = false;
		own[c] = 0; use[c] = 0; held[c] = 0; freeing[c] = 0; want[c] = 0; told[c] = false;
		if
		:: conn[c] -> session[conn[c] - 1] = LINGERS; conn[c] = 0
		:: else
		fi }
	:: !alive[c] -> break
	od
}

/* restore_open(): the records, who lives, the keeper's descriptors, and what nobody can bring back. */
inline load() {
	g = 1;
	do
	:: g > LAST -> break
	:: else -> owner[g] = (has_records -> j_owner[g] : 0); g++
	od;
	g = 0;
	named = (has_records -> j_named : 0);
	nameless = (has_records -> j_nameless : 0);
	deferred = (has_records -> j_deferred : 0);
	unsynced = (has_records -> j_untold : 0);
	s = 0;
	do
	:: s == SLOTS -> break
	:: else ->
		attached[s] = (has_records -> j_attached[s] : 0);
		session[s] = (has_records && j_session[s] -> GHOST : NONE);
		s++
	od;
	s = 0
}

inline has_things(s) {
	x = (attached[s] != 0);
	g = 1;
	do
	:: g > LAST -> break
	:: else -> x = x || (owner[g] == s + 1); g++
	od;
	g = 0
}

inline bury_all() {
	s = 0;
	do
	:: s == SLOTS -> break
	:: else ->
		has_things(s);
		if
		:: session[s] == GHOST && (!x || !alive[CLIENT(s)]) -> end_session(s)
		:: else
		fi;
		if
		:: session[s] == NONE && key[CLIENT(s)] == s + 1 -> key[CLIENT(s)] = 0
		:: else
		fi;
		s++
	od;
	s = 0; x = 0
}

inline start() {
	if
	:: !has_records -> promised = 0; gone = 0
	:: else
	fi;
	load();
	bury_all();
#ifdef BREAK_SETTLE
	keeper = 0;
#endif
	missing = (named && HAS(keeps, named) && !HAS(keeper, named) -> BIT(named) : 0);
	lose();
	keeper = (named -> keeper & BIT(named) : 0); /* fdstore_settle() */
	up = true;
	copy();
	judge()
}

inline fall() {
	crashes++;
	up = false; dirty = false; next = 0;
	named = 0; nameless = 0; deferred = 0; unsynced = 0; missing = 0;
	g = 0;
	do
	:: g > LAST -> break
	:: else -> owner[g] = 0; g++
	od;
	g = 0; s = 0;
	do
	:: s == SLOTS -> break
	:: else -> session[s] = NONE; attached[s] = 0; s++
	od;
	s = 0;
	do
	:: s == CLIENTS -> break
	:: else -> conn[s] = 0; told[s] = false; want[s] = 0; s++
	od;
	s = 0
}

proctype registry() {
	byte g, i, s, x, highest;

	do
	/* The clock is past all that was given: registry_new(). */
	:: d_step { !up ->
		highest = 0;
#ifndef BREAK_CLOCK
		do
		:: (given >> (highest + 1)) -> highest++
		:: else -> break
		od;
#endif
		next = highest; highest = 0;
		start() }
	:: d_step { up && crashes < CRASHES -> fall() }
	:: d_step { up && crashes < CRASHES -> fall(); keeper = 0; keeper_died = true }
	:: d_step { up && crashes < CRASHES -> fall(); has_records = false }
	/* Ends of connections, and of ghosts' processes: watch.c, restore_next_dead(). */
	:: d_step { up && (session[0] == LINGERS || session[1] == LINGERS || session[2] == LINGERS || session[3] == LINGERS) ->
		do
		:: session[s] == LINGERS -> break
		:: else -> s++
		od;
		end_session(s);
		s = 0;
		note();
		judge() }
#ifndef BREAK_WATCH
	:: d_step { up && ((session[0] == GHOST && !alive[0]) || (session[1] == GHOST && !alive[0]) ||
			   (session[2] == GHOST && !alive[1]) || (session[3] == GHOST && !alive[1])) ->
		bury_all();
		note();
		judge() }
#endif
	:: d_step { up && dirty -> copy() }
	/* registry_expire() */
	:: d_step { up && named && HAS(keeps, named) && !owner[named] ->
		promised = promised & ~BIT(named);
		x = named;
		drop(x);
		x = 0;
		note() }
	od
}

/* Everybody has ended and nothing is left to do: nothing may be left. */
proctype monitor() {
	timeout ->
	assert(!up || twice || (!named && !nameless && session[0] == NONE && session[1] == NONE &&
		       session[2] == NONE && session[3] == NONE))
}

init {
	byte i;

	atomic {
		i = 0;
		do
		:: i == SLOTS -> break
		:: else -> session[i] = NONE; i++
		od;
		i = 0;
		do
		:: i == CLIENTS -> break
		:: else -> alive[i] = true; run client(i); i++
		od;
		run registry();
		run monitor()
	}
}
