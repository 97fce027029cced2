/* Calls in which ranks use each other's memory, as commands of their streams: what algorithms/stream_tasks.cc makes of
   the tasks of all ranks. Words count messages and credits for as long as links exist, and calls follow each other
   without a barrier.

     spin -a -DLEADER tasks.pml      rank 0 runs the task of all
     spin -a -DONE_SHOT tasks.pml    each rank makes its own output of all inputs
     spin -a -DTWO_SHOT tasks.pml    each rank makes one part of all outputs

   Input and output of a rank are the memory that others use: the program's, or the staging area with the copies that
   fill it before and empty it afterwards. A value is the number of the call that wrote it, and 0 while it is written.

   Mutants, each of which must be found: -DNO_ARRIVAL  a task does not wait until the memory may be used
                                         -DEARLY_CREDIT  credit is given before the task has run
                                         -DNO_CREDIT  a rank does not wait until the tasks on its memory are done
                                         -DWAITS_FIRST  it waits for that before it says that they may begin

   With -DREPLAY log.pml has the commands that streams of a real call ran, in their order, and each step below is
   possible only where it is the next of them. Then `spin -DREPLAY ...` says "followed" at the end. */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef BEFORE
#define BEFORE 0 /* messages on each link: those of the trial of links */
#endif
#define SLOTS 2

#ifdef LEADER
#define RUNS(rank) ((rank) == 0)
#define WRITES(runner, rank, part) ((runner) == 0)
#define COPIES_IN(rank) ((rank) == 0 -> 0 : 1)
#define COPIES_OUT(rank) COPIES_IN(rank)
#endif
#ifdef ONE_SHOT
#define RUNS(rank) true
#define WRITES(runner, rank, part) ((runner) == (rank))
#define COPIES_IN(rank) 1
#define COPIES_OUT(rank) 0
#endif
#ifdef TWO_SHOT
#define RUNS(rank) true
#define WRITES(runner, rank, part) ((runner) == (part))
#define COPIES_IN(rank) (RANKS - 1)
#define COPIES_OUT(rank) (RANKS - 1)
#endif
#define USES(runner, owner) ((runner) != (owner) && RUNS(runner))

/* The kinds of commands in a log. */
#define WAIT_ARRIVAL 0
#define WAIT_CREDIT 1
#define SIGNAL_ARRIVAL 2
#define SIGNAL_CREDIT 3
#define COPY_BEGINS 4
#define COPY_ENDS 5
#define KERNEL_BEGINS 6
#define KERNEL_ENDS 7

#ifdef REPLAY
#include "log.pml"
int next = 0;
#define IS_NEXT(kind, peer, value) (log[next] == (((me) * 8 + (kind)) * 16 + (peer)) * 256 + (value))
#define NOTE next++
#else
#define IS_NEXT(kind, peer, value) true
#define NOTE skip
#endif

#define AT(owner, other) ((owner) * RANKS + (other))
byte arrived[RANKS * RANKS] = BEFORE; /* the owner's: messages of the other rank */
byte freed[RANKS * RANKS] = BEFORE;   /* the same: those to the other that it has done with */
byte input[RANKS];
byte output[RANKS * RANKS]; /* by rank and part */
byte over = 0;

inline wait_arrival(peer, value) {
  atomic { arrived[AT(me, peer)] >= value && IS_NEXT(WAIT_ARRIVAL, peer, value) -> NOTE }
}
inline wait_credit(peer, value) {
  atomic { freed[AT(me, peer)] >= value && IS_NEXT(WAIT_CREDIT, peer, value) -> NOTE }
}
inline signal_arrival(peer, value) {
  atomic { IS_NEXT(SIGNAL_ARRIVAL, peer, value) -> arrived[AT(peer, me)] = value; NOTE }
}
inline signal_credit(peer, value) {
  atomic { IS_NEXT(SIGNAL_CREDIT, peer, value) -> freed[AT(peer, me)] = value; NOTE }
}

/* The program's kernels before and after the call in its stream, or the copies to and from the staging area. */
inline fill() {
  atomic { input[me] = 0; i = COPIES_IN(me) }
#ifdef REPLAY
  do
  :: i > 0 ->
     atomic { IS_NEXT(COPY_BEGINS, 0, 0) -> NOTE }
     atomic { IS_NEXT(COPY_ENDS, 0, 0) -> NOTE; i-- }
  :: else -> break
  od;
#endif
  input[me] = call
}
inline check_output() {
  d_step {
    for (i : 0 .. RANKS - 1) { assert(output[AT(me, i)] == call) }
    i = 0
  }
}
inline use() {
  check_output();
#ifdef REPLAY
  i = COPIES_OUT(me);
  do
  :: i > 0 ->
     atomic { IS_NEXT(COPY_BEGINS, 0, 0) -> NOTE }
     atomic { IS_NEXT(COPY_ENDS, 0, 0) -> NOTE; i-- }
  :: else -> break
  od;
#endif
  check_output()
}

/* It reads all inputs and writes its outputs at some time between its begin and its end. */
inline check_inputs() {
  for (i : 0 .. RANKS - 1) { assert(input[i] == call) }
}
inline write_outputs(value) {
  for (i : 0 .. RANKS - 1) {
    for (j : 0 .. RANKS - 1) {
      if
      :: WRITES(me, i, j) -> output[AT(i, j)] = value
      :: else -> skip
      fi
    }
  }
  i = 0;
  j = 0
}
inline run_task() {
  atomic { IS_NEXT(KERNEL_BEGINS, 0, 0) -> NOTE; check_inputs(); write_outputs(0) }
  atomic { IS_NEXT(KERNEL_ENDS, 0, 0) -> NOTE; check_inputs(); write_outputs(call) }
}

inline open_memory() {
  for (peer : 0 .. RANKS - 1) {
    if
    :: USES(peer, me) ->
       if
       :: sent[peer] >= SLOTS -> wait_credit(peer, sent[peer] + 1 - SLOTS)
       :: else -> skip
       fi;
       sent[peer]++;
       signal_arrival(peer, sent[peer])
    :: else -> skip
    fi
  }
}
inline wait_until_done(more) {
  for (peer : 0 .. RANKS - 1) {
    if
    :: USES(peer, me) -> wait_credit(peer, sent[peer] + more)
    :: else -> skip
    fi
  }
}
inline wait_until_open() {
  for (peer : 0 .. RANKS - 1) {
    if
    :: USES(me, peer) -> received[peer]++;
#ifndef NO_ARRIVAL
       wait_arrival(peer, received[peer])
#endif
    :: else -> skip
    fi
  }
}
inline give_credit() {
  for (peer : 0 .. RANKS - 1) {
    if
    :: USES(me, peer) -> signal_credit(peer, received[peer])
    :: else -> skip
    fi
  }
}

proctype rank(byte me) {
  byte call = 1, peer, i, j;
  byte sent[RANKS] = BEFORE, received[RANKS] = BEFORE;
  do
  :: call <= CALLS ->
     fill();
#ifdef WAITS_FIRST
     wait_until_done(1);
#endif
     open_memory();
     if
     :: RUNS(me) ->
        wait_until_open();
#ifdef EARLY_CREDIT
        give_credit();
#endif
        run_task();
#ifndef EARLY_CREDIT
        give_credit()
#endif
     :: else -> skip
     fi;
#ifndef NO_CREDIT
     wait_until_done(0);
#endif
     use();
     call++
  :: else -> break
  od;
  over++
}

init {
  byte r;
  atomic { for (r : 0 .. RANKS - 1) { run rank(r) } }
#ifdef REPLAY
  over == RANKS && log[next] == END;
  printf("followed\n")
#endif
}
