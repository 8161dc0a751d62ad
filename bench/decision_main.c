// SPDX-License-Identifier: Apache-2.0
//
// bench_decision -- what it takes to route one chat request, without a server around it.
//
// A fleet and an index as they are after hours of service, then requests one after another: read
// the body, hash the prompt, match, choose, and send the update of the index.  Every
// request is the next turn of another conversation, whose bytes lie cold in memory, as do its runs
// in the index.  Each request's update of the index is undone, so that every pass finds the
// same state.
//
//     $ bench_decision --backends 64
//     {"p50_us":..., ...}

#include "base/base.h"
#include "base/histogram.h"
#include "base/reclaim.h"
#include "base/rng.h"
#include "chat.h"
#include "flags.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "policy/policy.h"
#include "prefix/prefix_index.h"
#include "route/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    block_size = 256, // as shipped
    index_memory = 256 << 20,
    keys_max = 4096,
    passes_max = 64,
    in_flight_each = 4,     // requests on each backend
    arrivals_each = 10,     // per second
    cache_tokens = 4 << 20, // of each backend: all that was stored is still believed to be there
};

struct options {
    uint64_t backends;
    uint64_t conversations; // in the index
    uint64_t bodies;        // of them, whose next turn comes
    uint64_t applications;  // each with a system prompt of its own
    uint64_t passes;
    uint64_t body_size;
    uint64_t system_size;
};

// A request that was sent and has not ended.
struct flight {
    struct backend *backend;
    bool on_trial;
    struct load_request load;
};

struct scene {
    struct reclaim reclaim;
    struct options options;
    struct rng rng;
    uint64_t now_us;
    uint64_t turn;
    struct fleet *fleet;
    struct backend **backends;
    struct knowledge *knowledge;
    struct route *route;
    struct prompt_reader *reader;
    struct prefix_hit *hits;
    struct slice *bodies;
    uint32_t *order;
    struct flight *flights; // ring
    uint32_t flight_count;
    uint64_t matched_blocks;
    uint64_t prompt_blocks;
    uint64_t targets;
    uint64_t body_bytes;
    uint64_t keys[keys_max];
};

enum stage {
    STAGE_READ,
    STAGE_CHOOSE,
    STAGE_STORE,
    STAGE_DECISION,
    STAGE_TOTAL,
    STAGE_SCAN,
    STAGE_HASH,
    STAGE_MATCH,
    STAGE_COUNT
};

static const char *const stage_names[STAGE_COUNT] = {
    [STAGE_READ] = "read", [STAGE_CHOOSE] = "choose", [STAGE_STORE] = "store",
    [STAGE_DECISION] = "", [STAGE_TOTAL] = "total",   [STAGE_SCAN] = "scan",
    [STAGE_HASH] = "hash", [STAGE_MATCH] = "match",
};

struct measured {
    struct histogram stages[STAGE_COUNT];
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *need(void *memory)
{
    if (memory == NULL) {
        fputs("bench_decision: out of memory\n", stderr);
        _Exit(1);
    }
    return memory;
}

static void report_load(struct scene *scene, struct backend *backend)
{
    load_report(&backend->load,
                &(struct load_report){.running = in_flight_each,
                                      .waiting = 0,
                                      .kv_usage = 0.3F + (float)rng_below(&scene->rng, 400) / 1000,
                                      .cache_tokens = cache_tokens,
                                      .block_tokens = 16},
                scene->now_us / 1000);
}

static void build_fleet(struct scene *scene)
{
    uint32_t count = (uint32_t)scene->options.backends;
    reclaim_init(&scene->reclaim, 0);
    scene->fleet = need(fleet_create(
        &(struct fleet_limits){.backend_count_max = count, .pool_count = 1}, &scene->reclaim));
    scene->backends = need(calloc(count, sizeof(struct backend *)));
    static const char *const model = "bench";
    for (uint32_t i = 0; i < count; i++) {
        char url[64];
        snprintf(url, sizeof(url), "http://10.0.%u.%u:8000", i / 256, i % 256);
        struct backend *backend = need(fleet_add(
            scene->fleet,
            &(struct fleet_spec){
                .url = url, .host = "h", .weight = 1, .models = &model, .model_count = 1}));
        scene->backends[i] = backend;
        backend_set_probe(backend, BACKEND_PROBE_UP, 0);
        // Learned speeds, a tenth apart.
        float luck = 0.95F + (float)rng_below(&scene->rng, 100) / 1000;
        atomic_store(&backend->load.prefill_ms, 0.03F * luck);
        atomic_store(&backend->load.step_ms, 7 * luck);
        atomic_store(&backend->load.prefill_samples, 100);
        atomic_store(&backend->load.step_samples, 100);
        report_load(scene, backend);
    }
    need(fleet_publish(scene->fleet) ? scene->fleet : NULL);
    scene->flight_count = count * in_flight_each;
    scene->flights = need(calloc(scene->flight_count, sizeof(struct flight)));
}

static void build_route(struct scene *scene)
{
    uint32_t count = (uint32_t)scene->options.backends;
    static const struct policy *const policies[] = {&policy_warm};
    scene->knowledge = need(knowledge_create(&(struct knowledge_options){
        .memory = index_memory, .ttl_s = 3600, .backend_count_max = count, .sender_count = 2}));
    scene->route = need(route_create(&(struct route_options){.policies = policies,
                                                             .pool_count = 1,
                                                             .target_count_max = count,
                                                             .knobs = policy_knobs_default,
                                                             .block_size = block_size,
                                                             .block_tokens = 16,
                                                             .knowledge = scene->knowledge,
                                                             .seed = 1}));
    scene->reader = need(prompt_reader_create());
    scene->hits = need(calloc(count, sizeof(*scene->hits)));
    struct traffic *traffic = knowledge_traffic(scene->knowledge, 0);
    for (int i = 0; i < 256; i++) {
        traffic_complete(traffic, 1500, 200);
        traffic_learn_text(traffic, 16000, 3800);
    }
    for (uint32_t i = 0; i < count; i++) {
        knowledge_owns(scene->knowledge, 0, scene->backends[i]);
    }
}

static void store(struct scene *scene, const struct backend *backend,
                  const struct route_request *request, enum prefix_residency residency,
                  uint32_t key_count)
{
    struct prefix_update update = {.residency = residency,
                                   .keys = request->keys,
                                   .key_count = key_count,
                                   .block_tokens = request->block_tokens,
                                   .now_s = (uint32_t)(scene->now_us / 1000000)};
    knowledge_store(scene->knowledge, 0, backend, &update);
    uint64_t session = knowledge_session_block(request->session_key);
    update.keys = &session;
    update.key_count = 1;
    knowledge_store(scene->knowledge, 0, backend, &update);
}

static void read_body(struct scene *scene, struct slice bytes, struct route_request *out)
{
    route_read(scene->route, fleet_view(scene->fleet),
               &(struct route_input){.api = PROMPT_CHAT, .body = bytes}, out);
}

// Each conversation so far was served by one backend, which holds all but the new message.
static void fill_index(struct scene *scene)
{
    const struct options *options = &scene->options;
    size_t room = options->body_size + chat_body_extra_max;
    uint8_t *scratch = need(malloc(room));

    scene->bodies = need(calloc(options->bodies, sizeof(*scene->bodies)));
    scene->order = need(calloc(options->bodies, sizeof(*scene->order)));
    for (uint32_t i = 0; i < options->conversations; i++) {
        struct text text = text_over(scratch, room);
        struct route_request request;
        struct chat_body body =
            chat_write(&(struct chat_plan){.application = i % (uint32_t)options->applications,
                                           .conversation = i,
                                           .system_size = (uint32_t)options->system_size,
                                           .size = (uint32_t)options->body_size,
                                           .has_user = true},
                       &text);
        ASSERT(!text.overflow);
        read_body(scene, text_slice(&text), &request);
        uint32_t fresh = (uint32_t)body.last_size / block_size + 1;
        ASSERT(request.key_count > fresh && request.key_count <= keys_max);
        uint32_t holder = rng_below(&scene->rng, (uint32_t)options->backends);
        // With few applications every backend has served all of them.
        uint64_t pairs = options->backends * options->applications;
        if (pairs <= options->conversations && i < pairs) {
            holder = i / (uint32_t)options->applications;
        }
        store(scene, scene->backends[holder], &request, PREFIX_CONFIRMED,
              request.key_count - fresh);
        if (i < options->bodies) {
            uint8_t *copy = need(malloc(text.size));
            memcpy(copy, scratch, text.size);
            scene->bodies[i] = slice_of(copy, text.size);
            scene->order[i] = i;
            scene->body_bytes += text.size;
        }
    }
    free(scratch);
}

static void shuffle(struct scene *scene)
{
    for (uint32_t i = (uint32_t)scene->options.bodies - 1; i > 0; i--) {
        uint32_t other = rng_below(&scene->rng, i + 1);
        uint32_t moved = scene->order[i];
        scene->order[i] = scene->order[other];
        scene->order[other] = moved;
    }
}

// Events between two requests: the oldest request ends, one in the middle gets its first token, a
// backend reports, time passes.
static void live_on(struct scene *scene)
{
    uint32_t backends = (uint32_t)scene->options.backends;
    struct flight *oldest = &scene->flights[scene->turn % scene->flight_count];
    struct flight *middle =
        &scene->flights[(scene->turn + scene->flight_count / 2) % scene->flight_count];

    scene->now_us += 1000000 / ((uint64_t)arrivals_each * backends) + 1;
    if (middle->backend != NULL) {
        load_assume_first_token(&middle->backend->load, &middle->load, scene->now_us);
    }
    if (oldest->backend != NULL) {
        load_end(&oldest->backend->load, &oldest->load);
        backend_end(oldest->backend, oldest->on_trial);
        oldest->backend = NULL;
    }
    // A backend that gets ten requests a second reports every tenth of a second, about.
    report_load(scene, scene->backends[rng_below(&scene->rng, backends)]);
}

static void decide(struct scene *scene, struct slice bytes, struct measured *out)
{
    const struct fleet_view *view = fleet_view(scene->fleet);
    struct route_tried tried = {0};
    struct route_request request;
    struct decision decision;
    struct route_choice choice = {.decision = &decision};
    struct flight *flight = &scene->flights[scene->turn % scene->flight_count];

    uint64_t begun = clock_ns();
    read_body(scene, bytes, &request);
    uint64_t was_read = clock_ns();
    enum route_verdict verdict =
        route_choose(scene->route, view, &request, &tried, scene->now_us, &choice);
    uint64_t chosen = clock_ns();
    ASSERT(verdict == ROUTE_CHOSEN);
    // As feedback_begin() does.
    flight->backend = choice.backend;
    flight->on_trial = choice.on_trial;
    flight->load = (struct load_request){.prompt_tokens = decision.prompt_tokens,
                                         .uncached_tokens = decision.prompt_tokens -
                                                            decision.chosen.matched_tokens};
    load_begin(&choice.backend->load, &flight->load, scene->now_us);
    memcpy(scene->keys, request.keys, request.key_count * sizeof(uint64_t));
    store(scene, choice.backend, &request, PREFIX_PREDICTED, request.key_count);
    uint64_t stored = clock_ns();

    histogram_add(&out->stages[STAGE_READ], was_read - begun);
    histogram_add(&out->stages[STAGE_CHOOSE], chosen - was_read);
    histogram_add(&out->stages[STAGE_DECISION], chosen - begun);
    histogram_add(&out->stages[STAGE_STORE], stored - chosen);
    histogram_add(&out->stages[STAGE_TOTAL], stored - begun);
    scene->matched_blocks += decision.chosen.matched_blocks;
    scene->prompt_blocks += request.key_count;
    scene->targets += decision.candidate_count;
    knowledge_withdraw(scene->knowledge, 0, choice.backend,
                       &(struct prefix_update){.keys = request.keys,
                                               .key_count = request.key_count,
                                               .from = decision.chosen.matched_blocks});
    scene->turn++;
}

// The parts that have an interface of their own, each by itself.
static void take_apart(struct scene *scene, struct slice bytes, struct measured *out)
{
    struct prompt prompt;
    struct prefix_chain chain;

    uint64_t begun = clock_ns();
    prompt_read(scene->reader, PROMPT_CHAT, bytes, &prompt);
    uint64_t scanned = clock_ns();
    prefix_chain_begin(&chain, prefix_text_seed(&(struct prefix_space){.model = prompt.model}),
                       block_size, scene->keys, keys_max);
    prompt_hash(scene->reader, &prompt, &chain);
    uint64_t hashed = clock_ns();
    uint32_t hit_count = prefix_index_match(knowledge_index(scene->knowledge), chain.keys,
                                            chain.key_count, (uint32_t)(scene->now_us / 1000000),
                                            scene->hits, (uint32_t)scene->options.backends);
    uint64_t matched = clock_ns();
    ASSERT(hit_count > 0);

    histogram_add(&out->stages[STAGE_SCAN], scanned - begun);
    histogram_add(&out->stages[STAGE_HASH], hashed - scanned);
    histogram_add(&out->stages[STAGE_MATCH], matched - hashed);
}

static void one_pass(struct scene *scene, struct measured *out)
{
    *out = (struct measured){0};
    shuffle(scene);
    for (uint32_t i = 0; i < scene->options.bodies; i++) {
        decide(scene, scene->bodies[scene->order[i]], out);
        live_on(scene);
    }
    shuffle(scene);
    for (uint32_t i = 0; i < scene->options.bodies; i++) {
        take_apart(scene, scene->bodies[scene->order[i]], out);
    }
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

// The median over the passes, in microseconds.
static double median_us(const struct measured *passes, uint64_t count, enum stage stage,
                        double quantile)
{
    double values[passes_max];
    for (uint64_t i = 0; i < count; i++) {
        values[i] = (double)histogram_quantile(&passes[i].stages[stage], quantile) / 1000;
    }
    qsort(values, count, sizeof(values[0]), compare);
    return values[count / 2];
}

static void print(const struct scene *scene, const struct measured *passes)
{
    uint64_t count = scene->options.passes;
    double requests = (double)(count * scene->options.bodies);
    printf("{\"bodies\":%.0f,\"body_bytes\":%.0f,\"blocks\":%.1f,\"matched\":%.4f,"
           "\"targets\":%.1f",
           (double)scene->options.bodies, (double)scene->body_bytes / (double)scene->options.bodies,
           (double)scene->prompt_blocks / requests,
           (double)scene->matched_blocks / (double)scene->prompt_blocks,
           (double)scene->targets / requests);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
        const char *name = stage_names[stage];
        const char *gap = *name == '\0' ? "" : "_";
        printf(",\"%s%sp50_us\":%.3f,\"%s%sp99_us\":%.3f", name, gap,
               median_us(passes, count, stage, 0.5), name, gap,
               median_us(passes, count, stage, 0.99));
    }
    puts("}");
}

int main(int argc, char **argv)
{
    static struct scene scene = {
        .options = {.backends = 64,
                    .conversations = 20000,
                    .bodies = 4096,
                    .applications = 1,
                    .passes = 5,
                    .body_size = 16384,
                    .system_size = 4096},
        .rng = {.state = 1},
        .now_us = 1000000000,
    };
    struct options *options = &scene.options;
    const struct flag flags[] = {
        {.name = "backends", .number = &options->backends},
        {.name = "conversations", .number = &options->conversations},
        {.name = "bodies", .number = &options->bodies},
        {.name = "applications", .number = &options->applications},
        {.name = "passes", .number = &options->passes},
        {.name = "body", .number = &options->body_size},
        {.name = "system", .number = &options->system_size},
    };
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1) || options->backends == 0 ||
        options->backends > 65535 || options->bodies < 2 || options->applications == 0 ||
        options->bodies > options->conversations || options->passes == 0 ||
        options->passes > passes_max || options->body_size > 1 << 19) {
        return 2;
    }
    build_fleet(&scene);
    build_route(&scene);
    fill_index(&scene);
    struct measured *passes = need(calloc(options->passes, sizeof(*passes)));
    one_pass(&scene, &passes[0]); // brings the requests in flight
    scene.matched_blocks = scene.prompt_blocks = scene.targets = 0;
    for (uint64_t i = 0; i < options->passes; i++) {
        one_pass(&scene, &passes[i]);
    }
    print(&scene, passes);
    free(passes);
    return 0;
}
