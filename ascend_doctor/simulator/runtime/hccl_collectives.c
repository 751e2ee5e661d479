/* The collectives, each made of exchanges: publish into the own slot, meet, read the others' slots.
 * Slots alternate, so one meeting an exchange is enough. */
#define _GNU_SOURCE
#include "hccl.h"

#include <stddef.h>
#include <string.h>

typedef struct operation operation;
struct operation {
    aclError (*run)(const operation *, char *message);
    const char *name;
    communicator *comm;
    sim_mark mark;
    signature what;
    const char *send;
    char *receive;
    HcclDataType type;
    HcclReduceOp reduction;
    uint64_t count, size; /* elements, bytes of one */
    double launched;      /* of the host's clock */
    bool by_rank;         /* without it what follows is neither set nor copied into the stream */
    uint64_t send_counts[MAX_RANKS], send_at[MAX_RANKS], receive_counts[MAX_RANKS], receive_at[MAX_RANKS];
};

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t largest(const uint64_t *values, uint32_t count) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static void copy(void *to, const void *from, uint64_t bytes) {
    if (bytes)
        memmove(to, from, bytes);
}

/* Where part `index` of `count` elements begins when `parts` ranks share them. */
static uint64_t share(uint64_t count, uint32_t index, uint32_t parts) {
    return count / parts * index + smaller(index, count % parts);
}

static void reduce_published(const operation *o, void *out, uint64_t first, uint64_t elements) {
    const void *in[MAX_RANKS];
    for (uint32_t rank = 0; rank < o->comm->ranks; rank++)
        in[rank] = sim_published(o->comm, rank)->data + first * o->size;
    sim_reduce(o->type, o->reduction, out, in, o->comm->ranks, elements);
}

#define EACH_CHUNK(at, part, total, limit) \
    for (uint64_t at = 0, part; at < (total) && (part = smaller((total) - at, (limit)), true); at += part)
#define MEET(o)                                                          \
    do {                                                                 \
        aclError code_ = sim_meet((o)->comm, &(o)->what, message);       \
        if (code_)                                                       \
            return code_;                                                \
    } while (0)

/* Each rank reduces its share of a chunk, then all collect the shares. */
static aclError all_reduce(const operation *o, char *message) {
    communicator *c = o->comm;
    EACH_CHUNK(at, n, o->count, SLOT / o->size) {
        uint64_t mine = share(n, c->rank, c->ranks), end = share(n, c->rank + 1, c->ranks);
        copy(sim_slot(c)->data, o->send + at * o->size, n * o->size);
        MEET(o);
        if (c->real < c->ranks) { /* nobody reduces the shares of absent ranks */
            reduce_published(o, o->receive + at * o->size, 0, n);
            continue;
        }
        reduce_published(o, sim_slot(c)->data, mine, end - mine);
        MEET(o);
        for (uint32_t rank = 0; rank < c->ranks; rank++) {
            uint64_t first = share(n, rank, c->ranks), last = share(n, rank + 1, c->ranks);
            copy(o->receive + (at + first) * o->size, sim_published(c, rank)->data, (last - first) * o->size);
        }
    }
    return ACL_SUCCESS;
}

static aclError reduce(const operation *o, char *message) {
    communicator *c = o->comm;
    EACH_CHUNK(at, n, o->count, SLOT / o->size) {
        copy(sim_slot(c)->data, o->send + at * o->size, n * o->size);
        MEET(o);
        if (c->rank == o->what.root)
            reduce_published(o, o->receive + at * o->size, 0, n);
    }
    return ACL_SUCCESS;
}

static aclError broadcast(const operation *o, char *message) {
    communicator *c = o->comm;
    EACH_CHUNK(at, n, o->count * o->size, SLOT) {
        if (c->rank == o->what.root)
            copy(sim_slot(c)->data, o->send + at, n);
        MEET(o);
        if (c->rank != o->what.root && !sim_absent(c, o->what.root))
            copy(o->receive + at, sim_published(c, o->what.root)->data, n);
    }
    return ACL_SUCCESS;
}

/* receive_counts and receive_at, in elements, say what every rank gives and where it goes. */
static aclError all_gather(const operation *o, char *message) {
    communicator *c = o->comm;
    EACH_CHUNK(at, n, largest(o->receive_counts, c->ranks) * o->size, SLOT) {
        uint64_t own = o->receive_counts[c->rank] * o->size;
        if (at < own)
            copy(sim_slot(c)->data, o->send + at, smaller(own - at, n));
        MEET(o);
        for (uint32_t rank = 0; rank < c->ranks; rank++) {
            uint64_t bytes = o->receive_counts[rank] * o->size;
            if (at < bytes)
                copy(o->receive + o->receive_at[rank] * o->size + at, sim_published(c, rank)->data, smaller(bytes - at, n));
        }
    }
    return ACL_SUCCESS;
}

/* Every rank publishes a piece for each; pieces of a round lie `room` elements apart. */
static void publish_pieces(const operation *o, uint64_t at, uint64_t room) {
    communicator *c = o->comm;
    char *data = sim_slot(c)->data;
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        if (at < o->send_counts[rank])
            copy(data + rank * room * o->size, o->send + (o->send_at[rank] + at) * o->size,
                 smaller(o->send_counts[rank] - at, room) * o->size);
}

static aclError reduce_scatter(const operation *o, char *message) {
    communicator *c = o->comm;
    uint64_t room = SLOT / o->size / c->ranks, own = o->send_counts[c->rank];
    EACH_CHUNK(at, n, largest(o->send_counts, c->ranks), room) {
        publish_pieces(o, at, room);
        MEET(o);
        if (at < own)
            reduce_published(o, o->receive + at * o->size, c->rank * room, smaller(own - at, n));
    }
    return ACL_SUCCESS;
}

static aclError scatter(const operation *o, char *message) {
    communicator *c = o->comm;
    uint64_t room = SLOT / o->size / c->ranks;
    EACH_CHUNK(at, n, o->count, room) {
        if (c->rank == o->what.root)
            publish_pieces(o, at, room);
        MEET(o);
        if (!sim_absent(c, o->what.root))
            copy(o->receive + at * o->size, sim_published(c, o->what.root)->data + c->rank * room * o->size, n * o->size);
    }
    return ACL_SUCCESS;
}

/* No rank knows the largest message of all pairs: the first round tells how many rounds there are. */
static aclError all_to_all(const operation *o, char *message) {
    communicator *c = o->comm;
    uint64_t room = SLOT / o->size / c->ranks, rounds = 1;
    for (uint64_t round = 0; round < rounds; round++) {
        slot *own = sim_slot(c);
        uint64_t at = round * room;
        bool given = sim_moves(largest(o->send_counts, c->ranks) * o->size);
        own->rounds = given ? (largest(o->send_counts, c->ranks) + room - 1) / room : 0;
        for (uint32_t rank = 0; rank < c->ranks; rank++)
            own->bytes[rank] = o->send_counts[rank] * o->size;
        if (given)
            publish_pieces(o, at, room);
        MEET(o);
        for (uint32_t rank = 0; rank < c->ranks; rank++) {
            if (sim_absent(c, rank))
                continue;
            const slot *theirs = sim_published(c, rank);
            uint64_t wanted = o->receive_counts[rank];
            if (theirs->bytes[c->rank] != wanted * o->size) {
                sim_compose(message, "EI0005",
                            "The arguments for collective communication are inconsistent between "
                            "ranks:parameter count, local end %llu, remote end %llu",
                            (unsigned long long)wanted, (unsigned long long)(theirs->bytes[c->rank] / o->size));
                return ACL_ERROR_RT_FFTS_PLUS_EXCEPTION;
            }
            rounds = theirs->rounds > rounds ? theirs->rounds : rounds;
            if (at < wanted && theirs->rounds)
                copy(o->receive + (o->receive_at[rank] + at) * o->size,
                     theirs->data + c->rank * room * o->size, smaller(wanted - at, room) * o->size);
        }
    }
    return ACL_SUCCESS;
}

static aclError barrier(const operation *o, char *message) {
    MEET(o);
    return ACL_SUCCESS;
}

/* What is large at true size only meets: who takes part and what is agreed on is compared as ever. */
static bool moves(const operation *o) {
    uint64_t most = o->count;
    if (o->by_rank) {
        uint64_t given = largest(o->send_counts, o->comm->ranks), taken = largest(o->receive_counts, o->comm->ranks);
        most = given > most ? given : most;
        most = taken > most ? taken : most;
    }
    return sim_moves(most * o->size);
}

static uint64_t bytes_given(const operation *o) {
    uint64_t given = 0;
    for (uint32_t rank = 0; o->by_rank && rank < o->comm->ranks; rank++)
        given += o->send_counts[rank];
    return (given ? given : o->count) * o->size;
}

static aclError run(void *arguments, aclError failed, char *message) {
    const operation *o = arguments;
    if (failed)
        return ACL_SUCCESS;
    sim_journal_mark(o->mark, SIM_BEGUN);
    sim_clock_from(o->launched);
    double came = sim_clock_now();
    aclError code = o->run == all_to_all || moves(o) ? o->run(o, message) : barrier(o, message);
    sim_clock_note("waits for ranks", came);
    double met = sim_clock_now();
    sim_clock_spend(sim_hccl_seconds(o->comm, o->name, bytes_given(o)));
    sim_clock_note(o->name, met);
    if (!code)
        sim_journal_mark(o->mark, SIM_ENDED);
    if (code)
        sim_hccl_failed(o->comm, message);
    else if (o->receive && moves(o))
        sim_hccl_corrupt(o->name, o->type, o->receive, o->count);
    return code;
}

/* Checks, links on the first use, and puts the operation into the stream. */
static HcclResult launch(operation *o, aclrtStream stream) {
    o->size = sim_hccl_size(o->type);
    if (!o->comm || !o->size || o->what.root >= o->comm->ranks)
        return HCCL_E_PARA;
    o->what.type = (uint32_t)o->type;
    o->what.reduction = (uint32_t)o->reduction;
    o->mark = sim_journal_call(o->comm, o->name, -1, o->what.count, o->type);
    bool hangs = sim_hccl_fault(o->name, o->type, stream);
    HcclResult result = hangs ? HCCL_SUCCESS : sim_link(o->comm, &o->what);
    if (result || hangs)
        return result;
    if (o->comm->rank == 0)
        sim_hccl_count(o->comm, o->name, bytes_given(o));
    o->launched = sim_host_clock();
    size_t size = o->by_rank ? sizeof *o : offsetof(operation, send_counts);
    return sim_launch(stream, run, o, size, true) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

/* Values of HcclCMDType in hccl_types.h */
enum { BROADCAST = 1, ALLREDUCE = 2, REDUCE = 3, ALLGATHER = 6, REDUCE_SCATTER = 7, ALLTOALLV = 8, SCATTER = 12,
       ALLGATHER_V = 16, REDUCE_SCATTER_V = 17, BARRIER = 103 };

HcclResult HcclAllReduce(void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
    if (!sim_reducible(type))
        return HCCL_E_NOT_SUPPORT;
    operation o = {.run = all_reduce, .name = "AllReduce", .comm = comm, .what = {.kind = ALLREDUCE, .count = count},
                   .send = send, .receive = receive, .type = type, .reduction = op, .count = count};
    return launch(&o, stream);
}

HcclResult HcclReduce(void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
    if (!sim_reducible(type))
        return HCCL_E_NOT_SUPPORT;
    const communicator *c = comm;
    operation o = {.run = reduce, .name = "Reduce", .comm = comm,
                   .what = {.kind = REDUCE, .count = count, .root = root}, .send = send,
                   .receive = c && c->rank == root ? receive : NULL, .type = type, .reduction = op, .count = count};
    return launch(&o, stream);
}

HcclResult HcclBroadcast(void *buffer, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
    operation o = {.run = broadcast, .name = "Broadcast", .comm = comm,
                   .what = {.kind = BROADCAST, .count = count, .root = root}, .send = buffer, .receive = buffer,
                   .type = type, .count = count};
    return launch(&o, stream);
}

HcclResult HcclAllGather(void *send, void *receive, uint64_t count, HcclDataType type, HcclComm comm,
                         aclrtStream stream) {
    operation o = {.run = all_gather, .by_rank = true, .name = "AllGather", .comm = comm, .what = {.kind = ALLGATHER, .count = count},
                   .send = send, .receive = receive, .type = type, .count = count};
    for (uint32_t rank = 0; rank < MAX_RANKS; rank++)
        o.receive_counts[rank] = count, o.receive_at[rank] = rank * count;
    return launch(&o, stream);
}

static void take(uint64_t *to, const void *from, HcclComm comm) {
    const communicator *c = comm;
    if (c && from)
        memcpy(to, from, c->ranks * sizeof *to);
}

HcclResult HcclAllGatherV(void *send, uint64_t count, void *receive, const void *counts, const void *at,
                          HcclDataType type, HcclComm comm, aclrtStream stream) {
    operation o = {.run = all_gather, .by_rank = true, .name = "AllGatherV", .comm = comm, .what = {.kind = ALLGATHER_V},
                   .send = send, .receive = receive, .type = type, .count = count};
    take(o.receive_counts, counts, comm);
    take(o.receive_at, at, comm);
    return launch(&o, stream);
}

HcclResult HcclReduceScatter(void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
    if (!sim_reducible(type))
        return HCCL_E_NOT_SUPPORT;
    operation o = {.run = reduce_scatter, .by_rank = true, .name = "ReduceScatter", .comm = comm,
                   .what = {.kind = REDUCE_SCATTER, .count = count}, .send = send, .receive = receive,
                   .type = type, .reduction = op, .count = count};
    for (uint32_t rank = 0; rank < MAX_RANKS; rank++)
        o.send_counts[rank] = count, o.send_at[rank] = rank * count;
    return launch(&o, stream);
}

HcclResult HcclReduceScatterV(void *send, const void *counts, const void *at, void *receive, uint64_t count,
                              HcclDataType type, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
    if (!sim_reducible(type))
        return HCCL_E_NOT_SUPPORT;
    operation o = {.run = reduce_scatter, .by_rank = true, .name = "ReduceScatterV", .comm = comm, .what = {.kind = REDUCE_SCATTER_V},
                   .send = send, .receive = receive, .type = type, .reduction = op, .count = count};
    take(o.send_counts, counts, comm);
    take(o.send_at, at, comm);
    return launch(&o, stream);
}

HcclResult HcclScatter(void *send, void *receive, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                       aclrtStream stream) {
    operation o = {.run = scatter, .by_rank = true, .name = "Scatter", .comm = comm,
                   .what = {.kind = SCATTER, .count = count, .root = root}, .send = send, .receive = receive,
                   .type = type, .count = count};
    for (uint32_t rank = 0; rank < MAX_RANKS; rank++)
        o.send_counts[rank] = count, o.send_at[rank] = rank * count;
    return launch(&o, stream);
}

static operation exchange(const void *send, const void *receive, HcclDataType type, HcclComm comm) {
    return (operation){.run = all_to_all, .by_rank = true, .name = "AlltoAllV", .comm = comm, .what = {.kind = ALLTOALLV},
                       .send = send, .receive = (char *)receive, .type = type};
}

static HcclResult launch_exchange(operation *o, HcclDataType receive_type, aclrtStream stream) {
    if (receive_type != o->type || !o->comm)
        return HCCL_E_PARA;
    o->count = o->receive_counts[0]; /* what a fault may touch: the piece from rank 0 */
    return launch(o, stream);
}

HcclResult HcclAlltoAllV(const void *send, const void *send_counts, const void *send_at, HcclDataType send_type,
                         const void *receive, const void *receive_counts, const void *receive_at,
                         HcclDataType receive_type, HcclComm comm, aclrtStream stream) {
    operation o = exchange(send, receive, send_type, comm);
    take(o.send_counts, send_counts, comm);
    take(o.send_at, send_at, comm);
    take(o.receive_counts, receive_counts, comm);
    take(o.receive_at, receive_at, comm);
    return launch_exchange(&o, receive_type, stream);
}

/* The matrix says what each rank (row) sends to each (column). */
HcclResult HcclAlltoAllVC(const void *send, const void *matrix, HcclDataType send_type, const void *receive,
                          HcclDataType receive_type, HcclComm comm, aclrtStream stream) {
    operation o = exchange(send, receive, send_type, comm);
    const communicator *c = comm;
    const uint64_t *counts = matrix;
    uint64_t sent = 0, received = 0;
    for (uint32_t rank = 0; c && rank < c->ranks; rank++) {
        o.send_counts[rank] = counts[c->rank * c->ranks + rank], o.send_at[rank] = sent;
        o.receive_counts[rank] = counts[rank * c->ranks + c->rank], o.receive_at[rank] = received;
        sent += o.send_counts[rank], received += o.receive_counts[rank];
    }
    return launch_exchange(&o, receive_type, stream);
}

HcclResult HcclAlltoAll(const void *send, uint64_t send_count, HcclDataType send_type, const void *receive,
                        uint64_t receive_count, HcclDataType receive_type, HcclComm comm, aclrtStream stream) {
    operation o = exchange(send, receive, send_type, comm);
    o.name = "AlltoAll";
    for (uint32_t rank = 0; rank < MAX_RANKS; rank++) {
        o.send_counts[rank] = send_count, o.send_at[rank] = rank * send_count;
        o.receive_counts[rank] = receive_count, o.receive_at[rank] = rank * receive_count;
    }
    return launch_exchange(&o, receive_type, stream);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
    operation o = {.run = barrier, .name = "Barrier", .comm = comm, .what = {.kind = BARRIER}};
    return launch(&o, stream);
}
