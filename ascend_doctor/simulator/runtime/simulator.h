/* What the parts of the simulated runtime share. Everything named sim_ is ours; the rest is CANN's. */
#ifndef ASCEND_SIMULATOR_H
#define ASCEND_SIMULATOR_H

#include "cann.h"

#define SIM_MAX_DEVICES 64
#define SIM_MESSAGE 1024
#define SIM_MOST_MOVED (512 << 10)

/* settings.c: what the environment says, read once */
typedef struct {
    char soc[64];
    uint32_t physical_devices; /* of the machine */
    uint32_t devices;          /* that this process may see, after ASCEND_RT_VISIBLE_DEVICES */
    uint32_t visible[SIM_MAX_DEVICES]; /* visible index -> device of the machine */
    enum { SIM_VISIBLE_GOOD, SIM_VISIBLE_DUPLICATE, SIM_VISIBLE_DESCENDING } visible_fault;
    uint64_t memory;           /* bytes of a device */
    int64_t cube_cores, vector_cores, l2_bytes;
    uint32_t node;             /* among several simulated servers */
    int rank;                  /* RANK, -1 without */
    double haste;              /* every HCCL time limit is divided by this */
    bool trace;
    struct {
        double pair, own, node; /* bytes a second: to one NPU of the server, to all, to other servers; or 0 */
        double latency;         /* seconds of each transfer */
    } links;
    char timeline[1024];       /* the folder for rows of virtual time, or "" */
    bool true_size;            /* device memory is reserved, and what is large is not computed */
} sim_settings;
const sim_settings *sim_config(void);
/* Whether so many bytes are really copied or filled. */
bool sim_moves(uint64_t bytes);
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* errors.c: aclGetRecentErrMsg belongs to the calling thread */
aclError sim_report(aclError error, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_compose(char *message, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* for a task, whose message somebody else will read */
void sim_report_text(const char *text);
aclError sim_not_simulated(const char *name);

/* device.c */
int sim_device(void); /* of the calling thread, -1 without */
aclError sim_device_error(int device, char *message); /* message may be NULL: then it is reported */
void sim_device_fail(int device, aclError code, const char *message);

/* ledger.c: how much of each device the processes of one simulated machine use */
bool sim_ledger_take(int device, uint64_t bytes);
void sim_ledger_give(int device, uint64_t bytes);
uint64_t sim_ledger_used(int device);
typedef struct sim_tally sim_tally;
sim_tally *sim_ledger_tally(uint32_t ranks, const char *operation);
void sim_ledger_count(sim_tally *tally, uint64_t bytes);

/* stream.c */
/* A task of a stream that failed before is called with that error: it only cleans up then. */
typedef aclError (*sim_task)(void *arguments, aclError failed, char *message);
/* Runs task(copy of arguments) in the order of the stream: at once in this thread when the stream
 * is idle and the task cannot block, else later in the stream's own thread. */
aclError sim_launch(aclrtStream stream, sim_task task, const void *arguments, size_t size, bool blocks);
aclError sim_wait(aclrtStream stream, int32_t milliseconds);
aclError sim_wait_device(int device, int32_t milliseconds);
int sim_stream_device(aclrtStream stream);
/* The same without virtual time: operators wait here where a device would only queue. */
aclError sim_settle(aclrtStream stream);
/* The clock of the stream whose task this thread runs, in seconds. */
double sim_clock_now(void);
void sim_clock_from(double launched); /* no earlier than the host launched it */
void sim_clock_until(double when);    /* waits for another stream or rank */
void sim_clock_spend(double seconds);
/* Something of this name took from then to now: a row of the timeline, if one is kept. */
void sim_clock_note(const char *name, double begin);

/* clock.c */
void sim_timeline(int stream, const char *name, double begin, double end);
double sim_host_clock(void);
void sim_host_until(double when);

/* faults.c */
typedef struct sim_fault sim_fault;
/* The declared fault of this kind that fits the device (-1: unknown) and the place, and whose turn it
 * is; NULL without. A fault with the key `on` only fits places that begin with its value. */
const sim_fault *sim_fault_due(const char *kind, int device);
const sim_fault *sim_fault_due_at(const char *kind, int device, const char *place);
const char *sim_fault_text(const sim_fault *fault, const char *key, const char *fallback);
double sim_fault_number(const sim_fault *fault, const char *key, double fallback);

#endif
