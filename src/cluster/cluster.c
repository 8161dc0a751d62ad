// SPDX-License-Identifier: Apache-2.0

#include "cluster/cluster.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/reclaim.h"
#include "cluster/mesh_link.h"
#include "cluster/store_link.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "net/seal.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"
#include "sys/mutex.h"
#include "sys/process.h"
#include "sys/thread.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    notes_a_turn = 20000, // then frames that came in have their turn
    show_ms = 100,
    speeds_ms = 1000,
    open_max = 16384,
    session_max = 65536,
    window_bits_min = 12,
    window_bits_max = 18,
    // Changes when prompts become other keys: routers of both rules do not share keys.
    key_rules = 1,
};

// Settings of a backend on their way between the keeper and this thread.
struct waiting_settings {
    uint64_t identity;
    uint64_t values[SETTING_COUNT];
    bool is_new[SETTING_COUNT];
};

struct cluster {
    struct cluster_options options;
    struct thread *thread;
    struct loop *loop;
    struct link *link;
    struct replica *replica;
    struct timer timer;
    uint32_t interval_ms;
    const struct fleet_view *view;
    uint64_t generation; // of the view that `by_slot` is for; 0: none
    struct backend **by_slot;
    uint32_t slot_count;
    uint64_t shown_ms;
    uint64_t speeds_ms;            // when speeds were told last
    struct load_told *told_speeds; // by slot
    uint64_t router;
    uint64_t space; // of keys
    char name[link_name_size];
    struct mutex lock; // for what follows
    struct cluster_status status;
    struct waiting_settings *ours;   // by slot, for the other routers
    struct waiting_settings *theirs; // by slot, for the keeper
    bool has_ours;
    bool has_theirs;
    uint64_t pools[fleet_pool_count_max]; // hashes of their names
    uint32_t pool_count;
};

static uint64_t pool_hash(const char *name)
{
    return hash_bytes(slice_str(name), key_rules);
}

static void cluster_apply(void *owner, const struct prefix_update *update)
{
    struct cluster *cluster = owner;
    struct backend *backend = cluster->by_slot[update->backend];
    if (backend != NULL) {
        // The slot may still have what the index believed of its last backend.
        (void)knowledge_owns(cluster->options.knowledge, cluster->options.sender, backend);
        knowledge_merge(cluster->options.knowledge, cluster->options.sender, update, thread_yield);
    }
}

static void cluster_set_load(void *owner, uint32_t slot, const struct replica_load *others)
{
    struct cluster *cluster = owner;
    struct backend *backend = cluster->by_slot[slot];
    if (backend != NULL) {
        load_set_others(&backend->load,
                        &(struct load_others){.requests = others->requests,
                                              .sequences = others->sequences,
                                              .queued_tokens = others->queued_tokens,
                                              .context_tokens = others->context_tokens});
    }
}

static void cluster_note_begun(void *owner, uint32_t slot, uint64_t requests, uint64_t tokens)
{
    struct cluster *cluster = owner;
    struct backend *backend = cluster->by_slot[slot];
    if (backend != NULL) {
        load_note_begun(&backend->load, requests, tokens, loop_now_ms(cluster->loop));
    }
}

static void cluster_set_arrivals(void *owner, uint64_t pool, float per_ms)
{
    struct cluster *cluster = owner;
    mutex_lock(&cluster->lock);
    for (uint32_t i = 0; i < cluster->pool_count; i++) {
        if (cluster->pools[i] == pool) {
            traffic_set_others(knowledge_traffic(cluster->options.knowledge, i), per_ms);
        }
    }
    mutex_unlock(&cluster->lock);
}

static void put_setting(struct waiting_settings *waiting, uint64_t identity,
                        enum setting_field field, uint64_t value)
{
    if (waiting->identity != identity) {
        *waiting = (struct waiting_settings){.identity = identity};
    }
    waiting->values[field] = value;
    waiting->is_new[field] = true;
}

static void cluster_take_setting(void *owner, uint32_t slot, enum setting_field field,
                                 uint64_t value)
{
    struct cluster *cluster = owner;
    struct backend *backend = cluster->by_slot[slot];
    if (backend == NULL) {
        return;
    }
    if (field == SETTING_CAPACITY) {
        knowledge_set_learned_capacity(cluster->options.knowledge, backend, saturate_u32(value));
        return;
    }
    mutex_lock(&cluster->lock);
    put_setting(&cluster->theirs[slot], backend->identity, field, value);
    cluster->has_theirs = true;
    mutex_unlock(&cluster->lock);
}

static void cluster_hear_speed(void *owner, uint32_t slot, float prefill_ms, float step_ms)
{
    struct cluster *cluster = owner;
    struct backend *backend = cluster->by_slot[slot];
    if (backend != NULL) {
        load_hear_speed(&backend->load, prefill_ms, step_ms, loop_now_us(cluster->loop));
    }
}

static bool cluster_send(void *owner, uint64_t to, struct slice frame)
{
    struct cluster *cluster = owner;
    return link_send(cluster->link, to, frame);
}

static size_t cluster_room(void *owner, uint64_t to)
{
    struct cluster *cluster = owner;
    return link_room(cluster->link, to);
}

static const struct replica_sink cluster_sink = {
    .apply = cluster_apply,
    .load = cluster_set_load,
    .begun = cluster_note_begun,
    .arrivals = cluster_set_arrivals,
    .setting = cluster_take_setting,
    .speed = cluster_hear_speed,
    .send = cluster_send,
    .room = cluster_room,
};

static void cluster_set_now(struct cluster *cluster)
{
    replica_set_now(cluster->replica, loop_now_ms(cluster->loop), clock_wall_ms());
}

// Routers of one space of keys say the same.
static struct slice cluster_hello(const struct cluster *cluster)
{
    return slice_of((const uint8_t *)&cluster->space, sizeof(cluster->space));
}

static void cluster_peer_came(void *owner, uint64_t router, const char *name, struct slice hello)
{
    struct cluster *cluster = owner;
    if (!slice_equal(hello, cluster_hello(cluster))) {
        log_warn("cluster: router %s: shares nothing with this one: its prefix.block_size or "
                 "cluster.name is another, or its version",
                 name);
    }
    cluster_set_now(cluster);
    replica_peer_came(cluster->replica, router);
}

static void cluster_peer_left(void *owner, uint64_t router)
{
    struct cluster *cluster = owner;
    cluster_set_now(cluster);
    replica_peer_left(cluster->replica, router);
}

static void cluster_take_frame(void *owner, uint64_t router, struct slice frame)
{
    struct cluster *cluster = owner;
    cluster_set_now(cluster);
    replica_take(cluster->replica, router, frame);
}

static const struct link_events cluster_events = {
    .came = cluster_peer_came, .left = cluster_peer_left, .frame = cluster_take_frame};

static uint32_t lives_of(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
}

static struct record_load load_of(const struct backend *backend)
{
    const struct load *load = &backend->load;
    int requests = atomic_load_explicit(&load->requests, memory_order_relaxed);
    int sequences = atomic_load_explicit(&load->sequences, memory_order_relaxed);
    int64_t queued = atomic_load_explicit(&load->queued_tokens, memory_order_relaxed);
    int64_t context = atomic_load_explicit(&load->context_tokens, memory_order_relaxed);
    return (struct record_load){
        .requests = requests > 0 ? (uint32_t)requests : 0,
        .sequences = sequences > 0 ? (uint32_t)sequences : 0,
        .queued_tokens = queued > 0 ? (uint64_t)queued : 0,
        .context_tokens = context > 0 ? (uint64_t)context : 0,
        .begun_requests = atomic_load_explicit(&load->begun_requests, memory_order_relaxed),
        .begun_tokens = atomic_load_explicit(&load->begun_tokens, memory_order_relaxed),
    };
}

// Between turns, so that nothing of an older view is held when the epoch is announced.
static void cluster_follow_fleet(struct cluster *cluster)
{
    struct reclaim *reclaim = cluster->options.reclaim;
    uint64_t epoch = reclaim_epoch(reclaim);

    cluster->view = fleet_view(cluster->options.fleet);
    if (cluster->view->generation != cluster->generation) {
        cluster->generation = cluster->view->generation;
        memset(cluster->by_slot, 0, cluster->slot_count * sizeof(struct backend *));
        for (uint32_t i = 0; i < cluster->view->member_count; i++) {
            struct backend *backend = cluster->view->members[i].backend;
            cluster->by_slot[backend->slot] = backend;
            replica_set_backend(cluster->replica, backend->identity, backend->slot,
                                lives_of(backend));
        }
        replica_end_backends(cluster->replica);
    }
    reclaim_announce(reclaim, cluster->options.reader, epoch);
}

static void cluster_tell_speed(struct cluster *cluster, const struct backend *backend)
{
    struct load_speeds speeds =
        load_take_measured(&backend->load, &cluster->told_speeds[backend->slot]);
    replica_tell_speed(cluster->replica, backend->identity, speeds.prefill_ms, speeds.step_ms);
}

// The replica is called without the lock: it may send, and what it calls may take the lock.
static struct waiting_settings take_ours(struct cluster *cluster, uint32_t slot)
{
    mutex_lock(&cluster->lock);
    struct waiting_settings taken = cluster->ours[slot];
    cluster->ours[slot] = (struct waiting_settings){0};
    mutex_unlock(&cluster->lock);
    return taken;
}

static bool take_has_ours(struct cluster *cluster)
{
    mutex_lock(&cluster->lock);
    bool has_ours = cluster->has_ours;
    cluster->has_ours = false;
    mutex_unlock(&cluster->lock);
    return has_ours;
}

static void cluster_tell_settings(struct cluster *cluster)
{
    if (!take_has_ours(cluster)) {
        return;
    }
    for (uint32_t i = 0; i < cluster->slot_count; i++) {
        struct waiting_settings taken = take_ours(cluster, i);
        for (uint32_t field = 0; field < SETTING_COUNT; field++) {
            if (taken.is_new[field]) {
                replica_set(cluster->replica, taken.identity, field, taken.values[field]);
            }
        }
    }
}

static void cluster_tell_arrivals(struct cluster *cluster)
{
    uint64_t pools[fleet_pool_count_max];
    mutex_lock(&cluster->lock);
    uint32_t count = cluster->pool_count;
    memcpy(pools, cluster->pools, sizeof(pools));
    mutex_unlock(&cluster->lock);
    for (uint32_t i = 0; i < count; i++) {
        const struct traffic *traffic = knowledge_traffic(cluster->options.knowledge, i);
        replica_set_arrivals(cluster->replica, pools[i],
                             traffic_own_arrivals(traffic, loop_now_us(cluster->loop)));
    }
}

static void cluster_tell_loads(struct cluster *cluster)
{
    uint64_t now_ms = loop_now_ms(cluster->loop);
    bool is_time = now_ms >= cluster->speeds_ms + speeds_ms;
    cluster->speeds_ms = is_time ? now_ms : cluster->speeds_ms;
    for (uint32_t i = 0; i < cluster->view->member_count; i++) {
        const struct backend *backend = cluster->view->members[i].backend;
        struct record_load load = load_of(backend);
        replica_set_lives(cluster->replica, backend->identity, lives_of(backend));
        replica_set_load(cluster->replica, backend->identity, &load);
        if (is_time) {
            cluster_tell_speed(cluster, backend);
        }
    }
}

static void cluster_show(struct cluster *cluster)
{
    mutex_lock(&cluster->lock);
    struct cluster_status *status = &cluster->status;
    status->router = cluster->router;
    memcpy(status->name, cluster->name, sizeof(status->name));
    status->now_ms = loop_now_ms(cluster->loop);
    status->notes_dropped = prefix_tap_dropped(knowledge_tap(cluster->options.knowledge));
    replica_read_status(cluster->replica, &status->replica);
    link_read_status(cluster->link, &status->link);
    mutex_unlock(&cluster->lock);
}

// One round: what was learned goes out.
static void cluster_tick(struct timer *timer)
{
    struct cluster *cluster = CONTAINER_OF(timer, struct cluster, timer);
    struct prefix_tap *tap = knowledge_tap(cluster->options.knowledge);
    struct prefix_note note;
    uint64_t now_ms = loop_now_ms(cluster->loop);

    cluster_set_now(cluster);
    for (uint32_t i = 0; i < notes_a_turn && prefix_tap_take(tap, &note); i++) {
        replica_note(cluster->replica, &note);
    }
    cluster_tell_settings(cluster);
    cluster_tell_loads(cluster);
    cluster_tell_arrivals(cluster);
    replica_pump(cluster->replica);
    if (now_ms >= cluster->shown_ms + show_ms) {
        cluster->shown_ms = now_ms;
        cluster_show(cluster);
    }
    // A snapshot that is given goes on as fast as its queue empties.
    loop_arm(cluster->loop, timer, replica_has_more(cluster->replica) ? 1 : cluster->interval_ms);
}

static void cluster_turn(void *owner)
{
    cluster_follow_fleet(owner);
}

static void cluster_run(void *owner)
{
    struct cluster *cluster = owner;

    cluster_set_now(cluster);
    cluster_follow_fleet(cluster);
    loop_arm(cluster->loop, &cluster->timer, cluster->interval_ms);
    loop_run(cluster->loop, cluster_turn, cluster);
    loop_disarm(cluster->loop, &cluster->timer);
    reclaim_leave(cluster->options.reclaim, cluster->options.reader);
}

// Half of the memory is for windows of 32 routers, the other half for the queues to them.
static uint32_t window_bits_of(uint64_t memory)
{
    uint32_t bits = window_bits_min;
    while (bits < window_bits_max && (UINT64_C(2) << bits) * 8 * 32 <= memory / 2) {
        bits++;
    }
    return bits;
}

static enum status cluster_open_link(struct cluster *cluster, char error[cluster_error_size])
{
    const struct config *config = cluster->options.config;
    uint8_t secret[link_secret_size];
    char dns_servers[config_dns_servers_size];
    bool has_secret = config->cluster.secret != NULL;
    enum status status = STATUS_OK;
    size_t out_size = (size_t)(config->cluster.memory / 64);
    struct link_options link = {
        .loop = cluster->loop,
        .events = &cluster_events,
        .owner = cluster,
        .router = cluster->router,
        .hello = cluster_hello(cluster),
        .out_size_max = out_size > 256 << 10 ? out_size : 256 << 10,
    };

    _Static_assert((int)cluster_error_size == (int)link_error_size, "handed on");
    memcpy(link.name, cluster->name, sizeof(link.name));
    if (has_secret) {
        status = seal_secret_of(slice_str(config->cluster.secret), secret);
    }
    if (status == STATUS_OK && config->cluster.listen != NULL) {
        status = mesh_link_open(
            &(struct mesh_options){.link = link,
                                   .listen = config->cluster.listen,
                                   .peers = config->cluster.peers.items,
                                   .peer_count = config->cluster.peers.count,
                                   .dns_servers = config_dns_servers(config, dns_servers),
                                   .shared_key = has_secret ? secret : NULL,
                                   .certificate = config->cluster.certificate,
                                   .key = config->cluster.key,
                                   .ca = config->cluster.ca},
            &cluster->link, error);
    } else if (status == STATUS_OK) {
        status = store_link_open(
            &(struct store_options){.link = link,
                                    .url = config->cluster.store,
                                    .ca = config->cluster.store_ca,
                                    .verify = config->cluster.store_verify,
                                    .dns_servers = config_dns_servers(config, dns_servers),
                                    .cluster = config->cluster.name,
                                    .secret = has_secret ? secret : NULL},
            &cluster->link, error);
    }
    explicit_bzero(secret, sizeof(secret));
    return status;
}

static enum status cluster_open(struct cluster *cluster, char error[cluster_error_size])
{
    const struct config *config = cluster->options.config;
    const struct knowledge *knowledge = cluster->options.knowledge;

    cluster->slot_count = knowledge_backend_count_max(knowledge);
    cluster->by_slot = calloc(cluster->slot_count, sizeof(struct backend *));
    cluster->told_speeds = calloc(cluster->slot_count, sizeof(struct load_told));
    cluster->ours = calloc(cluster->slot_count, sizeof(struct waiting_settings));
    cluster->theirs = calloc(cluster->slot_count, sizeof(struct waiting_settings));
    if (cluster->by_slot == NULL || cluster->told_speeds == NULL || cluster->ours == NULL ||
        cluster->theirs == NULL || loop_create(&cluster->loop) != STATUS_OK) {
        return STATUS_IO;
    }
    uint64_t rules[2] = {key_rules, config->prefix.block_size};
    cluster->space = hash_bytes(slice_of((const uint8_t *)rules, sizeof(rules)),
                                pool_hash(config->cluster.name));
    cluster->replica = replica_create(&(struct replica_options){
        .router = cluster->router,
        .space = cluster->space,
        .backend_max = cluster->slot_count,
        .window_bits = window_bits_of(config->cluster.memory),
        .open_max = open_max,
        .session_max = session_max,
        .index = knowledge_index(knowledge),
        .sink = &cluster_sink,
        .owner = cluster,
    });
    if (cluster->replica == NULL) {
        return STATUS_IO;
    }
    cluster_set_now(cluster);
    return cluster_open_link(cluster, error);
}

static void cluster_release(struct cluster **cluster_ptr)
{
    struct cluster *cluster = *cluster_ptr;
    *cluster_ptr = NULL;

    link_close(&cluster->link);
    replica_destroy(&cluster->replica);
    if (cluster->loop != NULL) {
        loop_turn(cluster->loop, 0); // recycles closed connections
    }
    loop_destroy(&cluster->loop);
    mutex_fini(&cluster->lock);
    free(cluster->by_slot);
    free(cluster->told_speeds);
    free(cluster->ours);
    free(cluster->theirs);
    free(cluster);
}

enum status cluster_start(const struct cluster_options *options, struct cluster **out,
                          char error[cluster_error_size])
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    (void)snprintf(error, cluster_error_size, "cluster: out of memory or file descriptors");
    if (cluster == NULL) {
        return STATUS_IO;
    }
    cluster->options = *options;
    cluster->router = clock_entropy() | 1;
    cluster->interval_ms = options->config->cluster.interval;
    cluster->timer.fire = cluster_tick;
    mutex_init(&cluster->lock);
    process_name(cluster->name, sizeof(cluster->name));
    cluster_set_config(cluster, options->config);
    if (cluster_open(cluster, error) != STATUS_OK ||
        thread_start("cluster", cluster_run, cluster, &cluster->thread) != STATUS_OK) {
        cluster_release(&cluster);
        return STATUS_IO;
    }
    cluster->options.config = NULL; // a reload frees it
    *out = cluster;
    return STATUS_OK;
}

void cluster_stop(struct cluster **cluster_ptr)
{
    struct cluster *cluster = *cluster_ptr;
    *cluster_ptr = NULL;

    if (cluster != NULL) {
        loop_stop(cluster->loop);
        thread_join(&cluster->thread);
        cluster_release(&cluster);
    }
}

void cluster_set_config(struct cluster *cluster, const struct config *config)
{
    mutex_lock(&cluster->lock);
    cluster->pool_count =
        config->pool_count < fleet_pool_count_max ? config->pool_count : fleet_pool_count_max;
    for (uint32_t i = 0; i < cluster->pool_count; i++) {
        cluster->pools[i] = pool_hash(config->pools[i].name);
    }
    // A number may mean another pool now; the others tell their arrivals again within a second.
    for (uint32_t i = 0; i < fleet_pool_count_max; i++) {
        traffic_set_others(knowledge_traffic(cluster->options.knowledge, i), 0);
    }
    mutex_unlock(&cluster->lock);
}

void cluster_wake(struct cluster *cluster)
{
    loop_wake(cluster->loop);
}

void cluster_set(struct cluster *cluster, const struct backend *backend, enum setting_field field,
                 uint64_t value)
{
    mutex_lock(&cluster->lock);
    put_setting(&cluster->ours[backend->slot], backend->identity, field, value);
    cluster->has_ours = true;
    mutex_unlock(&cluster->lock);
}

void cluster_take_settings(struct cluster *cluster, cluster_setting_fn *changed, void *owner)
{
    mutex_lock(&cluster->lock);
    for (uint32_t i = 0; i < cluster->slot_count && cluster->has_theirs; i++) {
        struct waiting_settings *waiting = &cluster->theirs[i];
        for (uint32_t field = 0; field < SETTING_COUNT; field++) {
            if (waiting->is_new[field]) {
                changed(owner, waiting->identity, field, waiting->values[field]);
            }
            waiting->is_new[field] = false;
        }
    }
    cluster->has_theirs = false;
    mutex_unlock(&cluster->lock);
}

void cluster_read_status(struct cluster *cluster, struct cluster_status *out)
{
    mutex_lock(&cluster->lock);
    *out = cluster->status;
    mutex_unlock(&cluster->lock);
}
