/* HCCL over shared memory. A communicator is one anonymous memory file (memfd) that all its ranks map;
 * it has no name, so nothing is left behind whatever happens to the processes. */
#ifndef ASCEND_SIMULATOR_HCCL_H
#define ASCEND_SIMULATOR_HCCL_H

#include "simulator.h"

#include <stdatomic.h>

enum {
    MAX_RANKS = 1024,
    CHILDREN = 64,           /* sub-communicators that are being made at one time */
    SLOT = 4 << 20,          /* bytes that a rank publishes at a time */
    MAIL = 256 << 10,        /* bytes of a message from rank to rank at a time, two under way */
    MESSAGES = 2,
    OPERATIONS = 16,         /* kinds that a communicator counts */
};

typedef _Atomic uint32_t word; /* 32 bits, as a futex has to be */

/* What the ranks of a collective have to agree on (EI0005 where they do not). */
typedef struct {
    uint32_t kind, type, reduction, root;
    uint64_t count;
} signature;

typedef struct {
    signature what;
    double clock;                /* of the stream, when it came */
    uint64_t rounds;             /* all-to-all: how often this rank has to publish */
    uint64_t bytes[MAX_RANKS];   /* all-to-all: for each receiver, in this round */
    char data[];
} slot;

typedef struct {
    word sent, taken; /* messages ever put in, and taken out */
    uint64_t sizes[MESSAGES];
    double clocks[MESSAGES]; /* when the sender began */
} channel;

/* A sub-communicator that its first rank has made and the others still have to open. */
typedef struct {
    word state; /* 0 free, 1 being written, 2 ready */
    word left;  /* ranks that have not opened it yet */
    uint64_t id;
    int32_t pid, file;
    char cookie[32];
} child;

typedef struct {
    char cookie[32];
    word placed, joined, linked, arrived, generation, children_changed;
    int32_t job[MAX_RANKS];   /* RANK of each, before it is present */
    word present[MAX_RANKS];  /* 1 + device of all machines, once a rank has joined */
    word place[MAX_RANKS];    /* of what a rank publishes and is sent, among those with a process */
    word met[MAX_RANKS];      /* meetings that a rank has come to */
    word bells[MAX_RANKS];    /* rung when a message came in or was taken */
    word paired[MAX_RANKS][MAX_RANKS];
    signature first[MAX_RANKS];
    channel channels[MAX_RANKS][MAX_RANKS];
    child children[CHILDREN];
} segment;

typedef struct {
    segment *shared;
    size_t size;
    uint32_t ranks, rank, meetings;
    uint32_t real; /* ranks with a process; what is absent is answered for by the first of them */
    uint32_t first_real;
    int row;           /* of the journal, -1 without */
    uint32_t nodes;    /* that its ranks are on */
    uint64_t numbered, transferred; /* collectives that this rank has called, and sends and receives */
    bool linked;
    char name[128];
    struct {
        const char *operation;
        sim_tally *tally;
    } counted[OPERATIONS];
    _Atomic bool failed;
    _Atomic int error;         /* HcclResult of the first operation that failed */
    char message[SIM_MESSAGE]; /* of that one; written before the error */
} communicator;

static inline bool sim_absent(const communicator *c, uint32_t rank) {
    return c->real < c->ranks && !atomic_load(&c->shared->present[rank]);
}

/* hccl.c: what a group communicated, for the ledger; `operation` is a literal */
void sim_hccl_count(communicator *c, const char *operation, uint64_t bytes);

/* journal.c */
typedef struct sim_call sim_call;
typedef struct {
    sim_call *call;
    uint64_t order;
} sim_mark;
void sim_journal_group(communicator *c);
/* peer: a rank of the communicator, -1 for a collective */
sim_mark sim_journal_call(communicator *c, const char *operation, int peer, uint64_t count, HcclDataType type);
enum { SIM_BEGUN = 1, SIM_ENDED = 2 };
void sim_journal_mark(sim_mark mark, uint32_t state);

/* hccl_link.c */
void sim_word_wake(word *w);
/* False when the word still is `old` at the deadline. */
bool sim_word_wait(word *w, uint32_t old, double deadline);
double sim_now(void);
double sim_connect_limit(void); /* seconds */
double sim_exec_limit(void);
HcclResult sim_check_limits(void);
slot *sim_slot(const communicator *c);                      /* to publish in */
slot *sim_published(const communicator *c, uint32_t rank); /* as of the last meeting */
char *sim_mail(const communicator *c, uint32_t from, uint32_t to, uint32_t message);
/* One exchange: what() is in every slot, all ranks have come. 0, or the error of the stream. */
aclError sim_meet(communicator *c, const signature *what, char *message);
/* Before the first collective: every rank has to show up within the connect limit. */
HcclResult sim_link(communicator *c, const signature *what);
/* A pair of ranks links when both have addressed each other. */
void sim_announce(communicator *c, uint32_t peer);
HcclResult sim_await(communicator *c, uint32_t peer, double deadline);
aclError sim_execution_timeout(char *message, uint32_t rank);
void sim_hccl_failed(communicator *c, const char *message); /* message: SIM_MESSAGE bytes */

/* hccl_time.c: virtual seconds of a collective of which a rank gives `bytes`, and of a transfer */
double sim_hccl_seconds(const communicator *c, const char *operation, uint64_t bytes);
double sim_hccl_transfer(const communicator *c, uint32_t peer, uint64_t bytes);
uint32_t sim_hccl_nodes(const communicator *c);

/* hccl_reduce.c */
size_t sim_hccl_size(HcclDataType type); /* 0: not a type */
bool sim_reducible(HcclDataType type);
void sim_reduce(HcclDataType type, HcclReduceOp op, void *out, const void *const *in, uint32_t count,
                uint64_t elements);

/* hccl_faults.c */
/* Faults that strike when an operation is launched; true: the rank hangs in it. */
bool sim_hccl_fault(const char *operation, HcclDataType type, aclrtStream stream);
void sim_hccl_corrupt(const char *operation, HcclDataType type, void *data, uint64_t count);

#endif
