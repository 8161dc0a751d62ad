// SPDX-License-Identifier: Apache-2.0

#include "sim/lab_cluster.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/slice.h"
#include "replica/replica.h"
#include "sim/workload/workload.h"

#include <stdlib.h>

// Keep the draws of the cluster apart from those of its routers.
static const uint64_t spread_salt = 0x737072656164;
static const uint64_t loss_salt = 0x6c6f7373;

static const uint64_t no_turn = UINT64_MAX;

// Router i of n has its first turn (i + 1)/n of a sync after the start.
static void cluster_plan_turns(struct lab_cluster *cluster, uint64_t now_us)
{
    uint64_t sync_us = (uint64_t)cluster->sharing.sync_ms * 1000;

    cluster->next_us = no_turn;
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        cluster->turns_us[i] = cluster->is_sharing && sync_us > 0
                                   ? now_us + sync_us * (i + 1) / cluster->router_count
                                   : no_turn;
        cluster->next_us =
            cluster->turns_us[i] < cluster->next_us ? cluster->turns_us[i] : cluster->next_us;
    }
}

static void cluster_introduce(struct lab_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        for (uint32_t k = 0; k < cluster->router_count; k++) {
            if (i != k) {
                replica_peer_came(cluster->routers[i].replica, cluster->routers[k].id);
            }
        }
    }
}

bool lab_cluster_open(struct lab_cluster *cluster, const struct lab_sharing *sharing,
                      const struct lab_router_options *options, uint64_t now_us)
{
    uint32_t count = sharing->router_count > 0 ? sharing->router_count : 1;
    bool is_sharing = count > 1 && sharing->sync_ms != lab_sync_never_ms;

    ASSERT(count <= lab_router_max);
    *cluster = (struct lab_cluster){
        .sharing = *sharing,
        .routers = calloc(count, sizeof(struct lab_router)),
        .turns_us = calloc(count, sizeof(uint64_t)),
        .is_sharing = is_sharing,
        .spread_seed = hash_pair(options->seed, spread_salt),
        .losses = {.state = hash_pair(options->seed, loss_salt)},
    };
    bool is_open = cluster->routers != NULL && cluster->turns_us != NULL;
    while (is_open && cluster->router_count < count) {
        struct lab_router *router = &cluster->routers[cluster->router_count];
        struct lab_router_options own = *options;
        own.number = cluster->router_count++;
        own.is_sharing = is_sharing;
        is_open = lab_router_open(router, &own);
        lab_router_set_now(router, now_us);
    }
    if (is_open) {
        cluster_plan_turns(cluster, now_us);
    }
    if (is_open && is_sharing) {
        cluster_introduce(cluster);
    }
    return is_open;
}

void lab_cluster_close(struct lab_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        lab_router_close(&cluster->routers[i]);
    }
    free(cluster->routers);
    free(cluster->turns_us);
    *cluster = (struct lab_cluster){0};
}

bool lab_cluster_join(struct lab_cluster *cluster)
{
    bool is_good = true;
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        is_good = is_good && lab_router_join(&cluster->routers[i]);
    }
    return is_good;
}

void lab_cluster_leave(struct lab_cluster *cluster, uint32_t slot)
{
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        lab_router_leave(&cluster->routers[i], slot);
    }
}

bool lab_cluster_publish(struct lab_cluster *cluster)
{
    bool is_good = true;
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        is_good = is_good && lab_router_publish(&cluster->routers[i]);
    }
    return is_good;
}

// A hash, not a stream of draws: all policies get the same requests at the same router.
struct lab_router *lab_cluster_pick(struct lab_cluster *cluster, const struct work_item *item)
{
    uint64_t name = cluster->sharing.spread == LAB_SPREAD_CLIENT ? item->client : item->number;
    return &cluster->routers[hash_pair(cluster->spread_seed, name) % cluster->router_count];
}

static bool cluster_loses(struct lab_cluster *cluster)
{
    double loss = cluster->sharing.loss;
    return loss > 0 && (double)(rng_next(&cluster->losses) >> 11) * 0x1p-53 < loss;
}

static void cluster_deliver(struct lab_cluster *cluster, struct lab_router *sender)
{
    for (uint32_t f = 0; f < sender->outbox.frame_count; f++) {
        uint64_t to = sender->outbox.frames[f].to;
        for (uint32_t i = 0; i < cluster->router_count; i++) {
            struct lab_router *router = &cluster->routers[i];
            bool is_for_it = router != sender && (to == 0 || to == router->id);
            if (is_for_it && !cluster_loses(cluster)) {
                lab_router_take(router, sender->id, lab_router_frame(sender, f));
            }
        }
    }
    lab_router_clear(sender);
}

// Notes are taken from the tap at once, because it holds only some: a router that shares once a
// second would lose the rest.
void lab_cluster_follow(struct lab_cluster *cluster, uint64_t now_us)
{
    bool is_immediate = cluster->sharing.sync_ms == 0;

    if (!cluster->is_sharing) {
        return;
    }
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        lab_router_set_now(&cluster->routers[i], now_us);
        lab_router_note(&cluster->routers[i]);
    }
    cluster->next_us = no_turn;
    for (uint32_t i = 0; i < cluster->router_count; i++) {
        if (is_immediate || cluster->turns_us[i] <= now_us) {
            lab_router_pump(&cluster->routers[i]);
            cluster_deliver(cluster, &cluster->routers[i]);
            cluster->turns_us[i] += is_immediate ? 0 : (uint64_t)cluster->sharing.sync_ms * 1000;
        }
        cluster->next_us =
            cluster->turns_us[i] < cluster->next_us ? cluster->turns_us[i] : cluster->next_us;
    }
}
