/*
 * The lease protocol on one worker row: two processes, TERMS incarnations,
 * clocks and expiry that do whatever they like, lost replies, extensions that
 * arrive late or again, crashes. README.md says which step is which function.
 *
 * Times are small numbers. A tick holds TICK of them and has room for one id,
 * so "no id twice" is that no tick is used twice.
 *
 * Mutants, by -D: START_AT_NOW, NO_TOKEN, RELEASE_LOWERS, PUBLISH_EARLY,
 * SHARED_TICK (with TICK=2), LEAD (with LOSSY).
 */

#ifndef TERMS
#define TERMS 4		/* incarnations of leases, over both processes */
#endif
#ifndef TMAX
#define TMAX 4		/* times are 0 .. TMAX-1 */
#endif
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef TICK
#define TICK 1
#endif
#ifndef LAG
#define LAG 1		/* how far a replica may be behind (LOSSY) */
#endif
#ifndef FAILOVERS
#define FAILOVERS 2
#endif
#ifndef REPLAY
#define REPLAY 1	/* whether extensions may arrive late or again */
#endif
#define GUARD (WINDOW + LAG)

/* The store's row. An owner is the number of an acquire attempt, which no
   other attempt shares; 0 is none. Expiry serves liveness alone, so that the
   model lets a row be taken at any time. */
byte H = 0;
byte term = 0;
byte owner = 0;

byte tokens = 0;	/* drawn so far */
bool used[TMAX + 2];	/* by tick */

/* An extension that stays in the network: it may be executed at any later
   time, again and again. */
bool flying = false;
byte fOwner, fTerm, fFrom, fTo;

#ifdef LOSSY
byte clock = 0;		/* the store's, which bounds high waters */
byte rH = 0, rTerm = 0, rOwner = 0, rAt = 0;	/* the replica */
byte failovers = 0;
#endif

#define UP(x)   ((((x) + TICK - 1) / TICK) * TICK)
#define DOWN(x) (((x) / TICK) * TICK)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

#ifdef SHARED_TICK
#define FROM(x)    DOWN(x)
#define THROUGH(x) UP(x)
#else
#define FROM(x)    UP(x)
#define THROUGH(x) DOWN(x)
#endif

/* A newcomer's wait on a store that may lose its tail. */
#ifdef LOSSY
#define WAITED (clock >= notBefore)
#else
#define WAITED true
#endif

/* The store's cap on a high water. */
#ifdef LOSSY
#ifdef LEAD
#define CAP MIN(TMAX, clock + GUARD + WINDOW)
#else
#define CAP MIN(TMAX, clock + WINDOW)
#endif
#else
#define CAP TMAX
#endif

/* The compare-and-swap of an extension. */
inline swap(o, t, from, through) {
	won = false;
	if
#ifdef NO_TOKEN
	:: through <= CAP -> H = MAX(H, through); won = true
#else
	:: owner == o && term == t && H == from && through <= CAP -> H = through; won = true
#endif
	:: else
	fi
}

/* Seal and forget: no id of this grant is issued from here on. */
inline seal() {
	held = false; unsure = false;
	myTerm = 0; myToken = 0; next = 0; limit = 0; mine = 0; tried = 0
#ifdef LOSSY
	; notBefore = 0
#endif
}

proctype process() {
	bool held = false, reading = false, unsure = false, won = false;
	byte myTerm = 0, myToken = 0;
	byte next = 0, limit = 0;	/* ids are issued in [next, limit) */
	byte mine = 0;			/* the confirmed high water */
	byte tried = 0;			/* a set: the extensions of unknown outcome */
	byte now = 0, to = 0, seenH = 0, seenTerm = 0;
#ifdef LOSSY
	byte notBefore = 0;
#endif

	do
	:: atomic { !held && !reading && tokens < TERMS ->	/* read a row */
		seenH = H; seenTerm = term; reading = true
	}
	:: atomic { reading ->					/* take it, if it is as it was */
#ifdef LOSSY
		now = clock;
#else
		select(now : 0 .. TMAX - 1);	/* behind or ahead of any other clock */
#endif
		reading = false;
		if
		:: tokens < TERMS && H == seenH && term == seenTerm ->
#ifdef LEAD
			to = MAX(H, MIN(TMAX, now + GUARD + WINDOW));
#else
			to = MAX(H, MIN(TMAX, now + WINDOW));
#endif
			tokens++;
			H = to; term++; owner = tokens;
			if
			:: held = true; myToken = tokens; myTerm = term; mine = H;
				limit = THROUGH(H);
#ifdef START_AT_NOW
				next = FROM(now);
#else
				next = FROM(MAX(now, seenH));
#endif
#ifdef LOSSY
				next = MIN(TMAX, MAX(next, now + GUARD));
#ifndef LEAD
				notBefore = next
#endif
#endif
			:: skip		/* the reply is lost: never adopted */
			fi
		:: else
		fi;
		now = 0; to = 0; seenH = 0; seenTerm = 0
	}

	:: atomic { held && next < limit && WAITED ->		/* an id */
		assert(!used[next / TICK]);
		used[next / TICK] = true;
		next = next + TICK
	}
	:: atomic { held && next + TICK < limit -> next = next + TICK }	/* the clock went on */

	:: atomic { held && mine < CAP ->			/* extend */
		select(to : 1 .. TMAX);
		if
		:: to > mine && to <= CAP ->
			if	/* a copy may stay in the network */
			:: REPLAY && !flying -> flying = true; fOwner = myToken; fTerm = myTerm; fFrom = mine; fTo = to
			:: skip
			fi;
#ifdef PUBLISH_EARLY
			limit = THROUGH(to);
#endif
			if
			:: swap(myToken, myTerm, mine, to);	/* the reply arrives */
				if
				:: won -> mine = to; limit = THROUGH(to); tried = 0; unsure = false
				:: else -> tried = tried | (1 << to); unsure = true
				fi
			:: swap(myToken, myTerm, mine, to);	/* the reply is lost */
				tried = tried | (1 << to); unsure = true
			:: tried = tried | (1 << to); unsure = true	/* so is the request */
			fi
		:: else
		fi;
		to = 0; won = false
	}
	:: atomic { held && unsure ->				/* read the row again */
		if	/* adopt it only if it is as one of the attempts left it */
		:: owner == myToken && term == myTerm && (tried & (1 << H)) ->
			mine = H; limit = THROUGH(H); tried = 0; unsure = false
		:: owner == myToken && term == myTerm && H == mine && !(tried & (1 << H)) -> unsure = false
		:: else -> seal()
		fi
	}

	:: atomic { held ->					/* release */
		if
		:: owner == myToken && term == myTerm -> owner = 0;
#ifdef RELEASE_LOWERS
			H = next
#endif
		:: else
		fi;
		seal()
	}
	:: atomic { held -> seal() }				/* crash, or give up */
	:: atomic { reading -> reading = false; seenH = 0; seenTerm = 0 }
	od
}

proctype network() {
	bool won;
	do
	:: atomic { flying -> swap(fOwner, fTerm, fFrom, fTo); won = false }
	:: atomic { flying -> flying = false; fOwner = 0; fTerm = 0; fFrom = 0; fTo = 0 }
	od
}

#ifdef LOSSY
proctype replication() {
	do
	:: atomic { clock < TMAX && clock - rAt < LAG -> clock++ }
	:: atomic { rAt != clock || rH != H || rTerm != term || rOwner != owner ->
		rH = H; rTerm = term; rOwner = owner; rAt = clock }
	:: atomic { failovers < FAILOVERS -> failovers++; H = rH; term = rTerm; owner = rOwner }
	od
}
#endif

/* High water and term never go down, unless a failover takes them back. */
#ifndef LOSSY
proctype monitor() {
	byte h, t;
	do
	:: atomic { H != h || term != t -> assert(H >= h && term >= t); h = H; t = term }
	od
}
#endif

init {
	atomic {
		run process(); run process(); run network();
#ifdef LOSSY
		run replication()
#else
		run monitor()
#endif
	}
}
