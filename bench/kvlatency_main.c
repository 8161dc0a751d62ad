// SPDX-License-Identifier: Apache-2.0
//
// bench_kvlatency -- the delay from an engine's event to a routable block, one figure a line.
//
//     $ bench_kvlatency --publishers 64 --rate 50 --seconds 10
//     {"case":"latency","metric":"p99_ms","value":0.41,"unit":"ms"}
//
// Each publisher is a PUB socket of libzmq on loopback, as engines have it; the other side is the
// feeder as it runs in the router, with its own thread and context.  Batches come at random times,
// `rate` a second from each.  A batch has one BlockStored of 1 to 64 blocks, the beginning of a
// prompt, and takes back what was said 100 batches before, in msgpack as vLLM writes it now.
//
// Measured is the time from before the send until a match finds the whole prompt, of every batch.
// The thread that sends also looks, every 20 us or as soon as the kernel lets it.

#include "base/base.h"
#include "base/hash.h"
#include "base/reclaim.h"
#include "base/rng.h"
#include "base/text.h"
#include "feed/kv/kv_feeder.h"
#include "flags.h"
#include "fleet/fleet.h"
#include "prefix/prefix_chain.h"
#include "prefix/prefix_ledger.h"
#include "sim/engine/kv_event_writer.h"
#include "sys/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <zmq.h>

enum {
    block_tokens = 16,
    blocks_max = 64,
    kept_batches = 100,
    batch_bytes = 64 << 10,
    publisher_max = 1024,
    flying_max = 4096, // sent and not found yet
    look_ns = 20000,
    lost_ns = 1000000000,
    address_size = 64,
};

struct publisher {
    void *socket;
    struct backend *backend;
    uint64_t number;
    uint64_t names[kept_batches]; // of the first block of a batch; the others count up
    uint32_t counts[kept_batches];
};

// A batch that is on its way.
struct flying {
    uint64_t sent_ns;
    uint32_t slot;
    uint32_t key_count;
    uint64_t keys[blocks_max];
};

struct world {
    struct reclaim reclaim;
    void *context;
    struct fleet *fleet;
    struct prefix_ledger *ledger;
    struct kv_feeder *feeder;
    struct rng rng;
    uint64_t lost;
    double *found_ms;
    double *late_ms; // how long after its time each was sent
    struct publisher publishers[publisher_max];
    struct flying flying[flying_max];
    uint32_t publisher_count;
    uint32_t flying_count;
    uint32_t found_count;
    uint32_t sent_count;
    uint32_t sample_max;
    bool counts; // what is found now; before, connections are made
};

static struct world world;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec pause = {.tv_nsec = (long)ns};
    nanosleep(&pause, NULL);
}

static void say(const char *metric, double value, const char *unit)
{
    printf("{\"case\":\"latency\",\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", metric,
           value, unit);
}

static void open_publisher(struct publisher *publisher, uint32_t number)
{
    char address[address_size];
    char url[address_size];
    size_t size = sizeof(address);
    int linger = 0;

    publisher->socket = zmq_socket(world.context, ZMQ_PUB);
    ASSERT(publisher->socket != NULL);
    ASSERT(zmq_setsockopt(publisher->socket, ZMQ_LINGER, &linger, sizeof(linger)) == 0);
    ASSERT(zmq_bind(publisher->socket, "tcp://127.0.0.1:*") == 0);
    ASSERT(zmq_getsockopt(publisher->socket, ZMQ_LAST_ENDPOINT, address, &size) == 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", number + 1);
    publisher->backend = fleet_add(world.fleet, &(struct fleet_spec){.url = url,
                                                                     .host = "127.0.0.1",
                                                                     .port = (uint16_t)(number + 1),
                                                                     .weight = 1,
                                                                     .events = address});
    ASSERT(publisher->backend != NULL);
}

static void open_world(void)
{
    char error[kv_feeder_error_size];
    struct fleet_limits limits = {.backend_count_max = world.publisher_count, .pool_count = 1};
    struct prefix_ledger_limits ledger = {.memory = 256 << 20,
                                          .backend_count_max = world.publisher_count};

    reclaim_init(&world.reclaim, 1);
    world.context = zmq_ctx_new();
    ASSERT(world.context != NULL);
    ASSERT(zmq_ctx_set(world.context, ZMQ_MAX_SOCKETS, publisher_max + 16) == 0);
    world.fleet = fleet_create(&limits, &world.reclaim);
    world.ledger = prefix_ledger_create(&ledger);
    ASSERT(world.fleet != NULL && world.ledger != NULL);
    for (uint32_t i = 0; i < world.publisher_count; i++) {
        open_publisher(&world.publishers[i], i);
    }
    ASSERT(fleet_publish(world.fleet));
    enum status status = kv_feeder_start(&(struct kv_feeder_options){.fleet = world.fleet,
                                                                     .reclaim = &world.reclaim,
                                                                     .ledger = world.ledger,
                                                                     .names_memory = 256 << 20},
                                         &world.feeder, error);
    ASSERT(status == STATUS_OK);
}

static void close_world(void)
{
    kv_feeder_stop(&world.feeder);
    for (uint32_t i = 0; i < world.publisher_count; i++) {
        ASSERT(zmq_close(world.publishers[i].socket) == 0);
    }
    ASSERT(zmq_ctx_term(world.context) == 0);
    reclaim_leave(&world.reclaim, 0);
    fleet_destroy(&world.fleet);
    prefix_ledger_destroy(&world.ledger);
    free(world.found_ms);
    free(world.late_ms);
}

static void write_removed(struct text *out, const struct publisher *publisher, uint32_t *count)
{
    uint32_t at = (uint32_t)(publisher->number % kept_batches);
    for (uint32_t i = publisher->counts[at]; i-- > 0;) {
        uint64_t name = publisher->names[at] + i;
        kv_event_write((struct kv_hash_form){.format = kv_event_format_at(0)},
                       &(struct kv_event){.kind = KV_EVENT_REMOVED,
                                          .hashes = &name,
                                          .hash_count = 1,
                                          .medium = "GPU",
                                          .has_group = true},
                       out);
        ++*count;
    }
}

// Writes a new prompt, and its keys into `flying`.
static void write_stored(struct text *out, struct publisher *publisher, struct flying *flying,
                         uint32_t *count)
{
    uint32_t tokens[blocks_max * block_tokens];
    uint64_t names[blocks_max];
    uint32_t at = (uint32_t)(publisher->number % kept_batches);
    uint64_t key = prefix_seed(&(struct prefix_space){0});

    flying->key_count = 1 + rng_below(&world.rng, blocks_max);
    publisher->names[at] = rng_next(&world.rng);
    publisher->counts[at] = flying->key_count;
    for (uint32_t i = 0; i < flying->key_count * block_tokens; i++) {
        tokens[i] = rng_below(&world.rng, 150000);
    }
    for (uint32_t i = 0; i < flying->key_count; i++) {
        names[i] = publisher->names[at] + i;
        key = hash_bytes(
            slice_of(tokens + (size_t)i * block_tokens, block_tokens * sizeof(tokens[0])), key);
        flying->keys[i] = key;
    }
    kv_event_write((struct kv_hash_form){.format = kv_event_format_at(0)},
                   &(struct kv_event){.kind = KV_EVENT_STORED,
                                      .hashes = names,
                                      .hash_count = flying->key_count,
                                      .tokens = tokens,
                                      .token_count = flying->key_count * block_tokens,
                                      .block_tokens = block_tokens,
                                      .has_group = true,
                                      .medium = "GPU",
                                      .spec_kind = "full_attention"},
                   out);
    ++*count;
}

static void send_batch(struct publisher *publisher, uint64_t due_ns)
{
    static uint8_t events[batch_bytes];
    static uint8_t batch[batch_bytes];
    struct text inner = text_over(events, sizeof(events));
    struct text outer = text_over(batch, sizeof(batch));
    struct flying *flying = &world.flying[world.flying_count];
    uint64_t number = __builtin_bswap64(publisher->number);
    uint32_t count = 0;

    ASSERT(world.flying_count < flying_max);
    write_removed(&inner, publisher, &count);
    write_stored(&inner, publisher, flying, &count);
    kv_batch_write(kv_event_format_at(0),
                   &(struct kv_batch){
                       .seconds = 1755907200.5, .events = text_slice(&inner), .event_count = count},
                   &outer);
    ASSERT(!inner.overflow && !outer.overflow);
    publisher->number++;
    flying->slot = publisher->backend->slot;
    flying->sent_ns = now_ns();
    if (world.counts && world.sent_count < world.sample_max) {
        world.late_ms[world.sent_count++] = (double)(flying->sent_ns - due_ns) / 1e6;
    }
    ASSERT(zmq_send(publisher->socket, "", 0, ZMQ_SNDMORE) == 0);
    ASSERT(zmq_send(publisher->socket, &number, sizeof(number), ZMQ_SNDMORE) == sizeof(number));
    ASSERT(zmq_send(publisher->socket, batch, outer.size, 0) == (int)outer.size);
    world.flying_count++;
}

static bool is_known(const struct flying *flying)
{
    struct prefix_hit hit;
    return prefix_ledger_match(world.ledger, flying->keys, flying->key_count, &hit, 1) == 1 &&
           hit.backend == flying->slot && hit.blocks == flying->key_count;
}

// A block that is unknown after a second was lost: count it as late.
static void look(void)
{
    for (uint32_t i = 0; i < world.flying_count;) {
        struct flying *flying = &world.flying[i];
        bool is_found = is_known(flying);
        uint64_t ns = now_ns() - flying->sent_ns;
        if (!is_found && ns < lost_ns) {
            i++;
            continue;
        }
        if (world.counts && is_found && world.found_count < world.sample_max) {
            world.found_ms[world.found_count++] = (double)ns / 1e6;
        }
        world.lost += world.counts && !is_found;
        *flying = world.flying[--world.flying_count];
    }
}

static void publish_for(double seconds, double rate)
{
    uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    double due_ns = (double)now_ns();

    for (uint64_t now = now_ns(); now < end_ns; now = now_ns()) {
        while ((uint64_t)due_ns <= now) {
            uint32_t chosen = rng_below(&world.rng, world.publisher_count);
            send_batch(&world.publishers[chosen], (uint64_t)due_ns);
            double share = (double)(rng_next(&world.rng) >> 11) * 0x1p-53;
            due_ns += -log(1 - share) * 1e9 / rate;
        }
        look();
        sleep_ns(look_ns);
    }
    for (end_ns += 2ULL * lost_ns; world.flying_count > 0 && now_ns() < end_ns;) {
        look();
        sleep_ns(look_ns);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *sorted, uint32_t count, double share)
{
    return sorted[(uint32_t)(share * (count - 1))];
}

static void tell(void)
{
    ASSERT(world.found_count > 0 && world.sent_count > 0);
    qsort(world.found_ms, world.found_count, sizeof(double), compare_doubles);
    qsort(world.late_ms, world.sent_count, sizeof(double), compare_doubles);
    say("p50_ms", quantile(world.found_ms, world.found_count, 0.5), "ms");
    say("p99_ms", quantile(world.found_ms, world.found_count, 0.99), "ms");
    say("p999_ms", quantile(world.found_ms, world.found_count, 0.999), "ms");
    say("late_p99_ms", quantile(world.late_ms, world.sent_count, 0.99), "ms");
    say("batches", world.found_count, "");
    say("lost", (double)world.lost, "");
}

int main(int argc, char **argv)
{
    uint64_t publishers = 64;
    uint64_t rate = 50;
    uint64_t seconds = 10;
    struct flag flags[] = {
        {.name = "publishers", .number = &publishers},
        {.name = "rate", .number = &rate},
        {.name = "seconds", .number = &seconds},
    };
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1) || publishers == 0 ||
        publishers > publisher_max || rate == 0 || seconds == 0) {
        return 2;
    }
    flags_raise_descriptor_limit();
    log_set_level(LOG_LEVEL_ERROR);
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    world.publisher_count = (uint32_t)publishers;
    world.rng = (struct rng){.state = 7};
    world.sample_max = (uint32_t)(publishers * rate * seconds * 2);
    world.found_ms = calloc(world.sample_max, sizeof(double));
    world.late_ms = calloc(world.sample_max, sizeof(double));
    ASSERT(world.found_ms != NULL && world.late_ms != NULL);
    open_world();
    publish_for(2, (double)(publishers * rate));
    world.counts = true;
    publish_for((double)seconds, (double)(publishers * rate));
    tell();
    close_world();
    return 0;
}
