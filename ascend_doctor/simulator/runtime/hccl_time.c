/* Virtual time of what HCCL moves, by the rates of links in the settings. */
#define _GNU_SOURCE
#include "hccl.h"

#include <string.h>

/* -1 for a rank without a process. */
static int node_of(const communicator *c, uint32_t rank) {
    return ((int)atomic_load(&c->shared->present[rank]) - 1) / SIM_MAX_DEVICES - sim_absent(c, rank);
}

uint32_t sim_hccl_nodes(const communicator *c) {
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < c->ranks; rank++) {
        uint32_t before = 0;
        while (before < rank && node_of(c, before) != node_of(c, rank))
            before++;
        nodes += before == rank;
    }
    return nodes;
}

/* Bytes a second from one rank: over the network, or over links to other ranks of its server, which
 * together are no more than what a rank has. */
static double speed(uint32_t nodes, uint32_t peers) {
    double pairs = sim_config()->links.pair * peers, own = sim_config()->links.own;
    if (nodes > 1)
        return sim_config()->links.node;
    return pairs < own ? pairs : own;
}

static double seconds(double bytes, double rate) {
    return rate ? sim_config()->links.latency + bytes / rate : 0;
}

/* What passes a rank's links, in parts of what it gives. */
static double parts(const char *operation, double ranks) {
    if (!strcmp(operation, "AllReduce"))
        return 2 * (ranks - 1) / ranks;
    if (!strncmp(operation, "AllGather", 9))
        return ranks - 1;
    return (ranks - 1) / ranks;
}

double sim_hccl_seconds(const communicator *c, const char *operation, uint64_t bytes) {
    return seconds((double)bytes * parts(operation, c->ranks), speed(c->nodes, c->ranks - 1));
}

double sim_hccl_transfer(const communicator *c, uint32_t peer, uint64_t bytes) {
    bool near = node_of(c, peer) == node_of(c, c->rank);
    return seconds((double)bytes, speed(near ? 1 : c->nodes, 1));
}
