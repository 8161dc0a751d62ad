// SPDX-License-Identifier: Apache-2.0
//
// Events of engines, applied to holdings and one ledger, against a twin of each engine: for every
// prompt, the same backends hold the same leading blocks in the same tiers.
//
// Blocks are the nodes of a forest, which all engines share; each engine has names of its own for
// them.  KV_MODEL_EVENTS in the environment sets the number of events.

#include "base/rng.h"
#include "kvevent/kv_holdings.h"
#include "kvevent/kv_twin.h"
#include "prefix/chain_token.h"
#include "test.h"

// How much is done: more where it is fast.
#if defined(__SANITIZE_THREAD__)
enum { events_usual = 40000 };
#elif defined(__SANITIZE_ADDRESS__)
enum { events_usual = 150000 };
#elif defined(SLOW_CHECKS)
enum { events_usual = 300000 };
#else
enum { events_usual = 2000000 };
#endif

enum {
    backend_count = 64,
    node_count = 6000,
    space_count = 5, // adapters and salts, and neither
    block_tokens = 4,
    depth_max = 300,
    event_blocks_max = 64,
    drain_events = 3000,
    prompt_count = 120, // that are asked for at a drain
    event_ms = 3,
};

struct node {
    uint32_t parent; // 0: it begins a prompt
    uint32_t depth;
    uint32_t space;
    uint32_t tokens[block_tokens];
    uint64_t key;
};

struct world {
    struct rng rng;
    struct node nodes[node_count + 1]; // from 1 on
    struct prefix_ledger *ledger;
    struct kv_names_budget budget;
    struct kv_holdings *holdings[backend_count];
    struct kv_twin twins[backend_count];
    uint32_t epochs[backend_count]; // an engine that hashes anew has other names for everything
    uint64_t now_ms;
};

static struct slice adapter_of(uint32_t space)
{
    return space % 2 == 1 ? slice_str(space == 1 ? "lora-a" : "lora-b") : (struct slice){0};
}

static struct slice salt_of(uint32_t space)
{
    return space >= 2 ? slice_str(space == 2 ? "tenant-a" : "tenant-b") : (struct slice){0};
}

static void grow_forest(struct world *world)
{
    for (uint32_t i = 1; i <= node_count; i++) {
        struct node *node = &world->nodes[i];
        // Mostly behind one that is new itself, so that there are long chains.
        uint32_t recent = i > 50 ? i - 1 - rng_below(&world->rng, 50) : rng_below(&world->rng, i);
        node->parent = rng_below(&world->rng, 60) == 0  ? 0
                       : rng_below(&world->rng, 4) != 0 ? recent
                                                        : rng_below(&world->rng, i);
        const struct node *parent = &world->nodes[node->parent];
        if (parent->depth >= depth_max) {
            node->parent = 0;
            parent = &world->nodes[0];
        }
        node->space = node->parent != 0 ? parent->space : rng_below(&world->rng, space_count);
        node->depth = parent->depth + 1;
        for (uint32_t k = 0; k < block_tokens; k++) {
            node->tokens[k] = rng_below(&world->rng, 150000);
        }
        uint64_t before =
            node->parent != 0
                ? parent->key
                : prefix_seed(&(struct prefix_space){.adapter = adapter_of(node->space),
                                                     .salt = salt_of(node->space)});
        // As prompts are hashed.
        struct prefix_chain chain;
        prefix_chain_begin(&chain, before, sizeof(node->tokens), &node->key, 1);
        for (uint32_t k = 0; k < block_tokens; k++) {
            chain_add_token(&chain, node->tokens[k]);
        }
    }
}

static uint64_t name_of(const struct world *world, uint32_t backend, uint32_t node)
{
    return rng_mix(node * (UINT64_C(1) << 32) + (world->epochs[backend] << 8) + backend);
}

static void world_make(struct world *world, uint64_t seed, size_t ledger_memory)
{
    memset(world, 0, sizeof(*world));
    world->rng = (struct rng){.state = seed};
    world->budget = (struct kv_names_budget){.limit = 256 << 20};
    world->ledger = prefix_ledger_create(&(struct prefix_ledger_limits){
        .memory = ledger_memory, .backend_count_max = backend_count});
    ASSERT(world->ledger != NULL);
    for (uint32_t i = 0; i < backend_count; i++) {
        world->twins[i].is_set = i % 8 == 7;
        world->holdings[i] =
            kv_holdings_create(&(struct kv_holdings_options){.ledger = world->ledger,
                                                             .budget = &world->budget,
                                                             .backend = i,
                                                             .is_set = world->twins[i].is_set});
        ASSERT(world->holdings[i] != NULL);
    }
    grow_forest(world);
}

static void world_unmake(struct world *world)
{
    for (uint32_t i = 0; i < backend_count; i++) {
        kv_holdings_destroy(&world->holdings[i]);
        kv_twin_purge(&world->twins[i]);
    }
    struct prefix_ledger_usage usage;
    prefix_ledger_usage(world->ledger, &usage);
    ASSERT(usage.run_count == 0 && world->budget.used == 0);
    prefix_ledger_destroy(&world->ledger);
}

static void tell(struct world *world, uint32_t backend, const struct kv_notice *notice)
{
    kv_holdings_apply(world->holdings[backend], notice, world->now_ms);
    kv_twin_apply(&world->twins[backend], notice, world->now_ms);
}

// An event that is being made.
struct draft {
    struct kv_notice notice;
    uint64_t hashes[event_blocks_max];
    uint32_t tokens[event_blocks_max * block_tokens];
};

static enum prefix_tier draw_tier(struct world *world)
{
    uint32_t draw = rng_below(&world->rng, 20);
    return draw < 16 ? PREFIX_GPU : draw < 19 ? PREFIX_HOST : PREFIX_DISK;
}

static bool is_known(struct world *world, uint32_t backend, uint32_t node)
{
    uint64_t key;
    return twin_key_of(&world->twins[backend], name_of(world, backend, node), &key);
}

// The blocks up to a node, from behind one that the engine holds, or from the first: as an engine
// computes a prompt.  Sometimes from anywhere, which makes an orphan.
static uint32_t draw_length(struct world *world, uint32_t backend, uint32_t node)
{
    uint32_t length = 1;
    bool is_orphan = rng_below(&world->rng, 8) == 0;
    uint32_t most = is_orphan ? 1 + rng_below(&world->rng, event_blocks_max) : event_blocks_max;
    for (uint32_t at = world->nodes[node].parent; at != 0 && length < most; length++) {
        if (!is_orphan && is_known(world, backend, at) && rng_below(&world->rng, 4) != 0) {
            break;
        }
        at = world->nodes[at].parent;
    }
    return length;
}

static void say_stored(struct world *world, uint32_t backend)
{
    static struct draft draft;
    uint32_t node = 1 + rng_below(&world->rng, node_count);
    uint32_t length = draw_length(world, backend, node);
    draft.notice = (struct kv_notice){.kind = KV_NOTICE_STORED,
                                      .hashes = draft.hashes,
                                      .hash_count = length,
                                      .block_tokens = block_tokens,
                                      .tokens = draft.tokens,
                                      .token_count = length * block_tokens,
                                      .tier = draw_tier(world),
                                      .decides = true,
                                      .is_plain = true};
    for (uint32_t i = length; i-- > 0; node = world->nodes[node].parent) {
        draft.hashes[i] = name_of(world, backend, node);
        memcpy(draft.tokens + (size_t)i * block_tokens, world->nodes[node].tokens,
               sizeof(world->nodes[node].tokens));
        draft.notice.adapter = adapter_of(world->nodes[node].space);
        draft.notice.salt = salt_of(world->nodes[node].space);
    }
    draft.notice.has_parent = node != 0;
    draft.notice.parent = name_of(world, backend, node);
    tell(world, backend, &draft.notice);
}

// Some in a row, one event each, as vLLM does, or in one event.
static void say_removed(struct world *world, uint32_t backend)
{
    uint64_t hashes[32];
    uint32_t left[32];
    uint32_t count = 1 + rng_below(&world->rng, 32);
    bool is_one = rng_below(&world->rng, 2) == 0;
    bool tells_left = rng_below(&world->rng, 8) == 0;
    enum prefix_tier tier = draw_tier(world);
    uint32_t node = 1 + rng_below(&world->rng, node_count);
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = name_of(world, backend, node);
        left[i] = rng_below(&world->rng, 4) == 0 ? UINT32_MAX : rng_below(&world->rng, 3);
        // Upwards, as ends go first, with leaps.
        node = world->nodes[node].parent;
        if (node == 0 || rng_below(&world->rng, 6) == 0) {
            node = 1 + rng_below(&world->rng, node_count);
        }
    }
    for (uint32_t i = 0; i < (is_one ? 1 : count); i++) {
        tell(world, backend,
             &(struct kv_notice){.kind = KV_NOTICE_REMOVED,
                                 .hashes = hashes + i,
                                 .hash_count = is_one ? count : 1,
                                 .copies_left = tells_left ? left + i : NULL,
                                 .tier = tier,
                                 .decides = true});
    }
}

// Blocks that come to another tier, without their tokens.
static void say_placeholder(struct world *world, uint32_t backend)
{
    uint64_t hashes[16];
    for (uint32_t i = 0; i < ARRAY_COUNT(hashes); i++) {
        hashes[i] = name_of(world, backend, 1 + rng_below(&world->rng, node_count));
    }
    tell(world, backend,
         &(struct kv_notice){.kind = KV_NOTICE_STORED,
                             .hashes = hashes,
                             .hash_count = ARRAY_COUNT(hashes),
                             .tier = rng_below(&world->rng, prefix_tier_count),
                             .decides = true,
                             .is_plain = true});
}

// Events to be ignored, with names that are in use.
static void say_noise(struct world *world, uint32_t backend)
{
    const struct node *node = &world->nodes[1 + rng_below(&world->rng, node_count)];
    uint64_t hash = name_of(world, backend, 1 + rng_below(&world->rng, node_count));
    uint32_t draw = rng_below(&world->rng, 6);
    tell(world, backend,
         &(struct kv_notice){.kind = draw == 0   ? KV_NOTICE_UNKNOWN
                                     : draw == 1 ? KV_NOTICE_MALFORMED
                                                 : KV_NOTICE_STORED,
                             .hashes = &hash,
                             .hash_count = 1,
                             .tokens = node->tokens,
                             .token_count = draw == 2 ? block_tokens - 1 : block_tokens,
                             .block_tokens = draw == 2 ? block_tokens - 1 : block_tokens,
                             .decides = draw != 3,
                             .is_plain = draw != 4,
                             .is_remote = draw == 5});
}

static void step(struct world *world)
{
    uint32_t backend = rng_below(&world->rng, backend_count);
    uint32_t draw = rng_below(&world->rng, 20000);
    world->now_ms += event_ms;
    if (draw < 10) {
        tell(world, backend, &(struct kv_notice){.kind = KV_NOTICE_CLEARED, .decides = true});
    } else if (draw < 14) {
        kv_holdings_purge(world->holdings[backend]);
        kv_twin_purge(&world->twins[backend]);
        world->epochs[backend]++;
    } else if (draw < 20) {
        world->epochs[backend]++; // another process, unnoticed
    } else if (draw < 1000) {
        // The block size is unknown before a true store.
        if (world->twins[backend].block_tokens != 0) {
            say_noise(world, backend);
        }
    } else if (draw < 2000) {
        say_placeholder(world, backend);
    } else if (draw < 8500) {
        say_stored(world, backend);
    } else {
        say_removed(world, backend);
    }
}

// Says what differs.
static bool is_same(const struct prefix_hit *hit, const struct prefix_hit *wanted, uint32_t backend)
{
    if (hit->blocks == wanted->blocks && hit->host == wanted->host && hit->disk == wanted->disk &&
        hit->confirmed == hit->blocks) {
        return true;
    }
    printf("# backend %u: %u blocks, %u in host memory, %u on disk; expected %u, %u, %u\n", backend,
           hit->blocks, hit->host, hit->disk, wanted->blocks, wanted->host, wanted->disk);
    return false;
}

static bool agree_on_prompt(struct world *world, uint32_t node)
{
    uint64_t keys[depth_max];
    struct prefix_hit hits[backend_count];
    struct prefix_hit by_backend[backend_count] = {0};
    uint32_t key_count = world->nodes[node].depth;
    for (uint32_t i = key_count; i-- > 0; node = world->nodes[node].parent) {
        keys[i] = world->nodes[node].key;
    }
    uint32_t hit_count = prefix_ledger_match(world->ledger, keys, key_count, hits, backend_count);
    for (uint32_t i = 0; i < hit_count; i++) {
        by_backend[hits[i].backend] = hits[i];
    }
    for (uint32_t i = 0; i < backend_count; i++) {
        struct prefix_hit wanted = kv_twin_match(&world->twins[i], keys, key_count);
        if (!is_same(&by_backend[i], &wanted, i)) {
            return false;
        }
    }
    return true;
}

static bool drain_and_compare(struct world *world)
{
    for (uint32_t i = 0; i < backend_count; i++) {
        kv_holdings_settle(world->holdings[i]);
        uint32_t orphan_count = 0;
        for (const struct twin_orphan *at = world->twins[i].orphans; at != NULL; at = at->next) {
            orphan_count++;
        }
        if (kv_holdings_block_count(world->holdings[i]) != world->twins[i].name_count ||
            kv_holdings_orphan_count(world->holdings[i]) != orphan_count) {
            printf("# backend %u: names or orphans differ in number\n", i);
            return false;
        }
    }
    for (uint32_t i = 0; i < prompt_count; i++) {
        if (!agree_on_prompt(world, 1 + rng_below(&world->rng, node_count))) {
            return false;
        }
    }
    return true;
}

static uint64_t event_count(void)
{
    const char *wanted = getenv("KV_MODEL_EVENTS"); // NOLINT(concurrency-mt-unsafe)
    return wanted != NULL ? strtoull(wanted, NULL, 10) : events_usual;
}

// False when they differ.
static bool run(struct world *world, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        step(world);
        if ((i % drain_events == 0 || i == count) && !drain_and_compare(world)) {
            return false;
        }
    }
    return true;
}

TEST(for_any_events_the_ledger_matches_as_a_list_of_all_blocks)
{
    static struct world world;
    struct kv_holdings_counts sum = {0};
    uint64_t count = event_count();
    world_make(&world, 1, 64 << 20);
    CHECK(run(&world, count));
    for (uint32_t i = 0; i < backend_count; i++) {
        const struct kv_holdings_counts *counts = kv_holdings_counts(world.holdings[i]);
        sum.refused += counts->refused;
        sum.stored += counts->stored;
        sum.orphans += counts->orphans;
        sum.adopted += counts->adopted;
    }
    printf("# %" PRIu64 " events, %" PRIu64 " blocks stored, %" PRIu64 " orphans of which %" PRIu64
           " were adopted\n",
           count, sum.stored, sum.orphans, sum.adopted);
    CHECK_EQ(sum.refused, 0);
    CHECK(sum.adopted > 0 && sum.adopted < sum.orphans);
    world_unmake(&world);
}
