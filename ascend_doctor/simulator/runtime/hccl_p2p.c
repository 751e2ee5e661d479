/* Send and receive: two messages of at most MAIL bytes can be under way between two ranks. Several
 * transfers progress side by side, so that no order of sends and receives locks up. */
#define _GNU_SOURCE
#include "hccl.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    HcclSendRecvItem item;
    uint64_t bytes, done;
    bool finished;
    double begun; /* when both sides were there */
    sim_mark mark;
} transfer;

typedef struct {
    communicator *comm;
    double launched; /* of the host's clock */
    uint32_t count;
    transfer transfers[];
} batch;

static void ring(segment *s, uint32_t rank) {
    atomic_fetch_add(&s->bells[rank], 1);
    sim_word_wake(&s->bells[rank]);
}

/* Moves at most one message; false when it has to wait for the other side. */
static bool send_some(communicator *c, transfer *t) {
    if (sim_absent(c, t->item.remoteRank))
        return t->finished = true;
    channel *way = &c->shared->channels[c->rank][t->item.remoteRank];
    uint32_t sent = atomic_load(&way->sent);
    if (sent - atomic_load(&way->taken) >= MESSAGES)
        return false;
    bool moves = sim_moves(t->bytes);
    uint64_t part = t->bytes - t->done < MAIL || !moves ? t->bytes - t->done : MAIL;
    if (part && moves)
        memcpy(sim_mail(c, c->rank, t->item.remoteRank, sent), (const char *)t->item.buf + t->done, part);
    way->sizes[sent % MESSAGES] = part;
    way->clocks[sent % MESSAGES] = sim_clock_now();
    atomic_store(&way->sent, sent + 1);
    ring(c->shared, t->item.remoteRank);
    t->done += part;
    t->finished = t->done == t->bytes;
    return true;
}

static bool receive_some(communicator *c, transfer *t) {
    if (sim_absent(c, t->item.remoteRank))
        return t->finished = true;
    channel *way = &c->shared->channels[t->item.remoteRank][c->rank];
    uint32_t taken = atomic_load(&way->taken);
    if (atomic_load(&way->sent) == taken)
        return false;
    uint64_t part = way->sizes[taken % MESSAGES];
    if (part > t->bytes - t->done)
        part = t->bytes - t->done;
    if (part && sim_moves(t->bytes))
        memcpy((char *)t->item.buf + t->done, sim_mail(c, t->item.remoteRank, c->rank, taken), part);
    if (way->clocks[taken % MESSAGES] > t->begun)
        t->begun = way->clocks[taken % MESSAGES];
    atomic_store(&way->taken, taken + 1);
    ring(c->shared, t->item.remoteRank);
    t->done += part;
    t->finished = t->done == t->bytes;
    return true;
}

/* Transfers with one peer in one direction are done one after the other. */
static bool blocked_by_earlier(const batch *b, uint32_t index) {
    const HcclSendRecvItem *item = &b->transfers[index].item;
    for (uint32_t i = 0; i < index; i++) {
        const transfer *earlier = &b->transfers[i];
        if (!earlier->finished && earlier->item.remoteRank == item->remoteRank &&
            earlier->item.sendRecvType == item->sendRecvType)
            return true;
    }
    return false;
}

static aclError run(void *arguments, aclError failed, char *message) {
    batch *b = arguments;
    communicator *c = b->comm;
    uint32_t open = failed ? 0 : b->count;
    sim_clock_from(b->launched);
    double came = sim_clock_now(), end = came;
    for (uint32_t i = 0; i < open; i++) {
        sim_journal_mark(b->transfers[i].mark, SIM_BEGUN);
        b->transfers[i].begun = sim_clock_now();
    }
    while (open) {
        uint32_t bell = atomic_load(&c->shared->bells[c->rank]), waits_for = 0;
        bool moved = false;
        open = 0;
        for (uint32_t i = 0; i < b->count; i++) {
            transfer *t = &b->transfers[i];
            if (!t->finished && !blocked_by_earlier(b, i))
                moved |= t->item.sendRecvType ? receive_some(c, t) : send_some(c, t);
            if (!t->finished)
                open++, waits_for = t->item.remoteRank;
            else
                sim_journal_mark(t->mark, SIM_ENDED);
        }
        if (open && !moved && !sim_word_wait(&c->shared->bells[c->rank], bell, sim_now() + sim_exec_limit())) {
            aclError code = sim_execution_timeout(message, waits_for);
            sim_hccl_failed(c, message);
            return code;
        }
    }
    for (uint32_t i = 0; i < b->count; i++) {
        const transfer *t = &b->transfers[i];
        double there = t->begun + sim_hccl_transfer(c, t->item.remoteRank, t->bytes);
        end = there > end ? there : end;
    }
    sim_clock_until(end);
    sim_clock_note("Send, Receive", came);
    return ACL_SUCCESS;
}

/* The group of this thread: what is sent and received between HcclGroupStart and HcclGroupEnd goes
 * together, as one batch for each communicator and stream. */
typedef struct {
    aclrtStream stream;
    batch *work;
} entry;

static _Thread_local struct {
    int depth;
    entry entries[MAX_RANKS];
    uint32_t count;
} group;

static batch *extended(batch *b, communicator *c, const HcclSendRecvItem *items, uint32_t count) {
    uint32_t before = b ? b->count : 0;
    batch *grown = realloc(b, sizeof(batch) + (before + count) * sizeof(transfer));
    if (!grown)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        grown->transfers[before + i] =
            (transfer){.item = items[i],
                       .bytes = items[i].count * sim_hccl_size(items[i].dataType),
                       .mark = sim_journal_call(c, items[i].sendRecvType ? "recv" : "send", (int)items[i].remoteRank,
                                                items[i].count, items[i].dataType)};
    grown->comm = c;
    grown->count = before + count;
    return grown;
}

static HcclResult collect(communicator *c, const HcclSendRecvItem *items, uint32_t count, aclrtStream stream) {
    uint32_t at = 0;
    while (at < group.count && (group.entries[at].work->comm != c || group.entries[at].stream != stream))
        at++;
    if (at == MAX_RANKS)
        return HCCL_E_UNAVAIL;
    bool fresh = at == group.count;
    batch *work = extended(fresh ? NULL : group.entries[at].work, c, items, count);
    if (!work)
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        if (items[i].sendRecvType == 0)
            sim_hccl_count(c, "Send", items[i].count * sim_hccl_size(items[i].dataType));
    group.entries[at] = (entry){stream, work};
    group.count += fresh;
    return HCCL_SUCCESS;
}

static const char *name_of(const batch *b) {
    return b->count > 1 ? "BatchSendRecv" : b->transfers[0].item.sendRecvType ? "Receive" : "Send";
}

/* All announcements go out before the first wait, so that no order of groups locks up. */
static HcclResult launch_group(void) {
    HcclResult result = HCCL_SUCCESS;
    bool hangs[MAX_RANKS] = {false};
    for (uint32_t e = 0; e < group.count; e++) {
        const batch *b = group.entries[e].work;
        hangs[e] = sim_hccl_fault(name_of(b), b->transfers[0].item.dataType, group.entries[e].stream);
        for (uint32_t i = 0; i < b->count && !hangs[e]; i++)
            sim_announce(b->comm, b->transfers[i].item.remoteRank);
    }
    double deadline = sim_now() + sim_connect_limit();
    for (uint32_t e = 0; e < group.count; e++) {
        batch *b = group.entries[e].work;
        for (uint32_t i = 0; i < b->count && !result && !hangs[e]; i++)
            result = sim_await(b->comm, b->transfers[i].item.remoteRank, deadline);
        b->launched = sim_host_clock();
        size_t size = sizeof *b + b->count * sizeof(transfer);
        if (!result && !hangs[e] && sim_launch(group.entries[e].stream, run, b, size, true))
            result = HCCL_E_RUNTIME;
        free(b);
    }
    group.count = 0;
    return result;
}

HcclResult HcclGroupStart(void) {
    group.depth++;
    return HCCL_SUCCESS;
}

HcclResult HcclGroupEnd(void) {
    if (!group.depth)
        return HCCL_E_PARA;
    return --group.depth ? HCCL_SUCCESS : launch_group();
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem *items, uint32_t count, HcclComm comm, aclrtStream stream) {
    communicator *c = comm;
    if (!c)
        return HCCL_E_PTR;
    for (uint32_t i = 0; i < count; i++)
        if (!sim_hccl_size(items[i].dataType) || items[i].remoteRank >= c->ranks)
            return HCCL_E_PARA;
    HcclResult result = count ? collect(c, items, count, stream) : HCCL_SUCCESS;
    return result || group.depth ? result : launch_group();
}

HcclResult HcclSend(void *buffer, uint64_t count, HcclDataType type, uint32_t to, HcclComm comm, aclrtStream stream) {
    HcclSendRecvItem item = {0, buffer, count, type, to};
    return HcclBatchSendRecv(&item, 1, comm, stream);
}

HcclResult HcclRecv(void *buffer, uint64_t count, HcclDataType type, uint32_t from, HcclComm comm, aclrtStream stream) {
    HcclSendRecvItem item = {1, buffer, count, type, from};
    return HcclBatchSendRecv(&item, 1, comm, stream);
}
