// SPDX-License-Identifier: Apache-2.0
//
// Most of the time goes to waiting for memory: names and runs lie wherever their hashes say.  So
// blocks are handled in portions, each in steps: first prefetch all that will be needed, then use
// it.

#include "kvevent/kv_holdings.h"

#include "base/base.h"
#include "base/hash.h"
#include "kvevent/kv_orphans.h"
#include "prefix/prefix_chain.h"

#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tokens are hashed as they lie in memory");

enum {
    portion = 64, // blocks; as many bits as prefix_ledger_enter has
    block_tokens_max = prefix_block_size_max / sizeof(uint32_t),
};

// Removals that wait for others of their tier.
struct removals {
    enum prefix_tier tier;
    uint32_t count;
    uint64_t hashes[portion];
    int64_t copies_left[portion];
};

struct kv_holdings {
    struct prefix_ledger *ledger;
    struct kv_names *names;
    struct kv_names *shares; // by place: the names that lead there, beside the first
    struct kv_orphans *orphans;
    uint32_t backend;
    bool is_set;

    bool has_group;
    uint32_t group;
    uint32_t block_tokens; // 0: unknown
    uint64_t tokens_stored;

    struct removals removals;
    uint8_t *joined; // a block's tokens and its extra keys, which are hashed together
    size_t joined_size;
    struct kv_holdings_counts counts;
};

struct kv_holdings *kv_holdings_create(const struct kv_holdings_options *options)
{
    ASSERT(options->ledger != NULL && options->budget != NULL);
    struct kv_holdings *holdings = calloc(1, sizeof(*holdings));
    if (holdings == NULL) {
        return NULL;
    }
    holdings->ledger = options->ledger;
    holdings->backend = options->backend;
    holdings->is_set = options->is_set;
    holdings->names = kv_names_create(options->budget);
    holdings->shares = kv_names_create(options->budget);
    holdings->orphans = kv_orphans_create();
    if (holdings->names == NULL || holdings->shares == NULL || holdings->orphans == NULL) {
        kv_holdings_destroy(&holdings);
    }
    return holdings;
}

void kv_holdings_destroy(struct kv_holdings **holdings)
{
    struct kv_holdings *old = *holdings;
    *holdings = NULL;
    if (old == NULL) {
        return;
    }
    if (old->names != NULL && old->shares != NULL && old->orphans != NULL) {
        kv_holdings_purge(old);
    }
    kv_names_destroy(&old->names);
    kv_names_destroy(&old->shares);
    kv_orphans_destroy(&old->orphans);
    free(old->joined);
    free(old);
}

// One name of each place is removed; the last one leaves the ledger.  Overwrites `places`.
static void release_places(struct kv_holdings *holdings, uint32_t *places, uint32_t count,
                           enum prefix_tier tier)
{
    ASSERT(tier < prefix_tier_count);
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct kv_names_gone share =
            kv_names_remove(holdings->shares, places[i], tier, kv_names_one_less);
        places[left] = places[i];
        left += share.place == 0;
    }
    prefix_ledger_leave_all(holdings->ledger, places, left, holdings->backend, tier);
}

static void release_place(struct kv_holdings *holdings, uint32_t place, enum prefix_tier tier)
{
    release_places(holdings, &place, 1, tier);
}

// The place of a block in any tier, the given one first.  0: unknown.
static uint32_t find_in_any(const struct kv_holdings *holdings, uint64_t hash,
                            enum prefix_tier tier)
{
    uint32_t place = kv_names_find(holdings->names, hash, tier);
    for (enum prefix_tier other = 0; place == 0 && other < prefix_tier_count; other++) {
        place = kv_names_find(holdings->names, hash, other);
    }
    return place;
}

// Forgetting a tier visits places all over the ledger: each is prefetched some visits before it
// is left.
struct leaving {
    struct kv_holdings *holdings;
    enum prefix_tier tier;
    uint32_t count;
    uint32_t places[portion];
};

static void leave_oldest(struct leaving *leaving)
{
    // No block is entered meanwhile, so a place with two names may be left twice.
    uint32_t place = leaving->places[leaving->count % portion];
    if (place != 0) {
        prefix_ledger_leave(leaving->holdings->ledger, place, leaving->holdings->backend,
                            leaving->tier);
    }
}

static void leave_later(void *owner, uint32_t place)
{
    struct leaving *leaving = owner;
    leave_oldest(leaving);
    prefix_ledger_prefetch_place(leaving->holdings->ledger, place);
    leaving->places[leaving->count++ % portion] = place;
}

static void forget_tier(struct kv_holdings *holdings, enum prefix_tier tier)
{
    struct leaving leaving = {.holdings = holdings, .tier = tier};
    kv_names_each(holdings->names, tier, leave_later, &leaving);
    for (uint32_t i = 0; i < portion; i++) {
        leave_oldest(&leaving);
        leaving.count++;
    }
    kv_names_clear(holdings->names, tier);
    kv_names_clear(holdings->shares, tier);
    kv_orphans_clear(holdings->orphans, tier);
}

static void forget_all(struct kv_holdings *holdings)
{
    holdings->removals.count = 0;
    for (enum prefix_tier tier = 0; tier < prefix_tier_count; tier++) {
        forget_tier(holdings, tier);
    }
    holdings->tokens_stored = 0;
}

void kv_holdings_purge(struct kv_holdings *holdings)
{
    kv_holdings_settle(holdings);
    forget_all(holdings);
    holdings->has_group = false;
    holdings->block_tokens = 0;
}

// One copy less, or all of them.  Returns the place of a block whose last copy it was, else 0.
static uint32_t remove_block_name(struct kv_holdings *holdings, uint64_t hash,
                                  enum prefix_tier tier, int64_t copies_left)
{
    copies_left = holdings->is_set ? 0 : copies_left;
    struct kv_names_gone gone = kv_names_remove(holdings->names, hash, tier, copies_left);
    if (gone.place == 0 && !kv_orphans_remove(holdings->orphans, hash, tier, copies_left == 0)) {
        holdings->counts.unknown_removals++;
    }
    return gone.is_last ? gone.place : 0;
}

void kv_holdings_settle(struct kv_holdings *holdings)
{
    ASSERT(holdings->removals.count <= portion && holdings->removals.tier < prefix_tier_count);
    struct removals *removals = &holdings->removals;
    uint32_t places[portion];
    uint32_t place_count = 0;
    for (uint32_t i = 0; i < removals->count; i++) {
        uint32_t place = remove_block_name(holdings, removals->hashes[i], removals->tier,
                                           removals->copies_left[i]);
        if (place != 0) {
            prefix_ledger_prefetch_place(holdings->ledger, place);
            places[place_count++] = place;
        }
    }
    if (place_count > 0) {
        prefix_ledger_prefetch_ends(holdings->ledger, places, place_count);
        release_places(holdings, places, place_count, removals->tier);
    }
    removals->count = 0;
}

static void prefetch_names(const struct kv_holdings *holdings, const struct kv_notice *notice,
                           uint32_t first)
{
    ASSERT_SLOW(first < notice->hash_count);
    uint32_t left = notice->hash_count - first;
    kv_names_prefetch(holdings->names, notice->hashes + first, left < portion ? left : portion,
                      notice->tier);
}

static void apply_removed(struct kv_holdings *holdings, const struct kv_notice *notice)
{
    ASSERT(holdings->removals.count < portion);
    struct removals *removals = &holdings->removals;
    if (removals->tier != notice->tier) {
        kv_holdings_settle(holdings);
        removals->tier = notice->tier;
    }
    holdings->counts.removed += notice->hash_count;
    for (uint32_t i = 0; i < notice->hash_count; i++) {
        if (i % portion == 0) {
            prefetch_names(holdings, notice, i);
        }
        uint32_t copies = notice->copies_left != NULL ? notice->copies_left[i] : UINT32_MAX;
        removals->hashes[removals->count] = notice->hashes[i];
        removals->copies_left[removals->count] =
            copies != UINT32_MAX ? (int64_t)copies : kv_names_one_less;
        if (++removals->count == portion) {
            kv_holdings_settle(holdings);
        }
    }
}

// The block that others follow.
struct tail {
    uint32_t place; // 0: they begin a prompt
    uint64_t key;   // or the seed
};

// The key of a block that is more than its tokens.  False when memory is short.
static bool key_with_extra(struct kv_holdings *holdings, struct slice tokens, struct slice extra,
                           uint64_t *key)
{
    size_t size = tokens.size + extra.size;
    if (size > holdings->joined_size) {
        uint8_t *joined = realloc(holdings->joined, size);
        if (joined == NULL) {
            return false;
        }
        holdings->joined = joined;
        holdings->joined_size = size;
    }
    memcpy(holdings->joined, tokens.bytes, tokens.size);
    if (extra.size > 0) {
        memcpy(holdings->joined + tokens.size, extra.bytes, extra.size);
    }
    *key = hash_bytes(slice_of(holdings->joined, size), *key);
    return true;
}

// Blocks of a notice on their way to the ledger.
struct batch {
    const struct kv_notice *notice;
    uint32_t first;
    uint32_t count;
    uint32_t extra; // the next of the notice
    uint64_t keys[portion];
    uint32_t places[portion];
    uint64_t before; // a bit for each that was held already
};

// Makes the keys.  Fewer than all when memory is short.
static uint32_t make_block_keys(struct kv_holdings *holdings, struct batch *batch, uint64_t key)
{
    ASSERT(batch->count <= portion && batch->first + batch->count <= batch->notice->hash_count);
    const struct kv_notice *notice = batch->notice;
    size_t block_size = notice->block_tokens * sizeof(uint32_t);
    const uint8_t *at = (const uint8_t *)notice->tokens + batch->first * block_size;
    for (uint32_t i = 0; i < batch->count; i++, at += block_size) {
        bool has_extra = batch->extra < notice->extra_count &&
                         notice->extras[batch->extra].block == batch->first + i;
        if (!has_extra) {
            key = hash_bytes(slice_of(at, block_size), key);
        } else if (!key_with_extra(holdings, slice_of(at, block_size),
                                   notice->extras[batch->extra++].bytes, &key)) {
            return i;
        }
        batch->keys[i] = key;
        prefix_ledger_prefetch(holdings->ledger, key);
    }
    return batch->count;
}

// Gives the block this name.  False: the budget of names is spent.
static bool add_block_name(struct kv_holdings *holdings, const struct batch *batch, uint32_t i,
                           uint32_t *before)
{
    ASSERT_SLOW(i < batch->count);
    enum prefix_tier tier = batch->notice->tier;
    uint64_t hash = batch->notice->hashes[batch->first + i];
    uint32_t place = batch->places[i];
    bool was_held = (batch->before >> i & 1) != 0;
    struct kv_names_added added = kv_names_add(holdings->names, hash, tier, place);
    *before = added.before != place ? added.before : 0;
    if (added.is_full || added.before == place || !was_held) {
        return !added.is_full;
    }
    // Another name has it.
    if (kv_names_add(holdings->shares, place, tier, place).is_full) {
        kv_names_remove(holdings->names, hash, tier, 0);
        return false;
    }
    return true;
}

// Names the blocks that the ledger has.  Returns how many found memory.
static uint32_t name_held_blocks(struct kv_holdings *holdings, const struct batch *batch)
{
    ASSERT(batch->count <= portion);
    uint32_t left[portion];
    uint32_t left_count = 0;
    uint32_t named = 0;
    for (; named < batch->count; named++) {
        uint32_t before;
        bool is_named = add_block_name(holdings, batch, named, &before);
        if (before != 0) {
            left[left_count++] = before;
        }
        if (!is_named) {
            break;
        }
    }
    // Only after all have their names: a place that one leaves another may have taken.
    for (uint32_t i = 0; i < left_count; i++) {
        release_place(holdings, left[i], batch->notice->tier);
    }
    for (uint32_t i = named; i < batch->count; i++) {
        if ((batch->before >> i & 1) == 0) {
            prefix_ledger_leave(holdings->ledger, batch->places[i], holdings->backend,
                                batch->notice->tier);
        }
    }
    return named;
}

// Enters the blocks of a notice behind another.  Returns how many found memory.
static uint32_t store_blocks(struct kv_holdings *holdings, const struct kv_notice *notice,
                             struct tail tail)
{
    struct batch batch = {.notice = notice};
    while (batch.first < notice->hash_count) {
        uint32_t left = notice->hash_count - batch.first;
        uint32_t wanted = left < portion ? left : portion;
        batch.count = wanted;
        prefetch_names(holdings, notice, batch.first);
        batch.count = make_block_keys(holdings, &batch, tail.key);
        batch.before = 0;
        kv_names_prefetch_room(holdings->names, notice->hashes + batch.first, batch.count,
                               notice->tier);
        batch.count = prefix_ledger_enter(holdings->ledger,
                                          &(struct prefix_entry){.keys = batch.keys,
                                                                 .key_count = batch.count,
                                                                 .after = tail.place,
                                                                 .backend = holdings->backend,
                                                                 .tier = notice->tier,
                                                                 .before = &batch.before},
                                          batch.places);
        uint32_t named = name_held_blocks(holdings, &batch);
        batch.first += named;
        if (named < wanted) {
            holdings->counts.refused += notice->hash_count - batch.first;
            break;
        }
        tail = (struct tail){.place = batch.places[named - 1], .key = batch.keys[named - 1]};
    }
    return batch.first;
}

// Orphans, one behind the other.
struct orphan_queue {
    struct kv_orphan *first;
    struct kv_orphan **end;
};

// The orphans that waited for one of these blocks.
static void take_children(struct kv_holdings *holdings, const struct kv_notice *notice,
                          uint32_t count, struct orphan_queue *queue)
{
    ASSERT(count <= notice->hash_count);
    for (uint32_t i = 0; i < count && kv_orphans_count(holdings->orphans) > 0; i++) {
        struct kv_orphan *orphan;
        while ((orphan = kv_orphans_take(holdings->orphans, notice->hashes[i])) != NULL) {
            orphan->next = NULL;
            *queue->end = orphan;
            queue->end = &orphan->next;
        }
    }
}

// Removes blocks that were removed while they waited as orphans.
static void remove_gone(struct kv_holdings *holdings, const struct kv_orphan *orphan,
                        uint32_t count)
{
    ASSERT(count <= orphan->notice.hash_count);
    enum prefix_tier tier = orphan->notice.tier;
    for (uint32_t i = 0; i < count; i++) {
        if (orphan->blocks[i].is_gone) {
            uint32_t place =
                remove_block_name(holdings, orphan->notice.hashes[i], tier, kv_names_one_less);
            if (place != 0) {
                release_place(holdings, place, tier);
            }
        }
    }
}

// Blocks have come: stores the orphans that waited for them, and those that waited for these.
static void adopt(struct kv_holdings *holdings, const struct kv_notice *notice, uint32_t count)
{
    struct orphan_queue queue = {.end = &queue.first};
    take_children(holdings, notice, count, &queue);
    for (struct kv_orphan *orphan = queue.first; orphan != NULL; orphan = orphan->next) {
        uint32_t place = find_in_any(holdings, orphan->notice.parent, orphan->notice.tier);
        if (place == 0) { // memory was short, or the parent's name has come to mean another block
            holdings->counts.orphans_lost++;
            orphan->notice.hash_count = 0;
            continue;
        }
        struct tail tail = {.place = place, .key = prefix_ledger_key(holdings->ledger, place)};
        orphan->notice.hash_count = store_blocks(holdings, &orphan->notice, tail);
        holdings->counts.adopted++;
        take_children(holdings, &orphan->notice, orphan->notice.hash_count, &queue);
    }
    // Only now: other orphans had to find their places behind these.
    while (queue.first != NULL) {
        struct kv_orphan *orphan = queue.first;
        queue.first = orphan->next;
        remove_gone(holdings, orphan, orphan->notice.hash_count);
        kv_orphan_free(orphan);
    }
}

// Blocks that moved to another tier.  Their tokens are known only if another tier holds them.
static void apply_placeholder(struct kv_holdings *holdings, const struct kv_notice *notice)
{
    for (uint32_t i = 0; i < notice->hash_count; i++) {
        uint32_t place = find_in_any(holdings, notice->hashes[i], notice->tier);
        if (place == 0) {
            holdings->counts.ignored++;
            continue;
        }
        struct batch batch = {.notice = notice, .first = i, .count = 1, .places = {place}};
        batch.before = prefix_ledger_hold(holdings->ledger, place, holdings->backend, notice->tier);
        holdings->counts.stored++;
        holdings->counts.refused += name_held_blocks(holdings, &batch) == 0;
    }
}

// False: events of this block size are ignored.
static bool is_of_size(struct kv_holdings *holdings, const struct kv_notice *notice)
{
    if (notice->block_tokens > block_tokens_max || notice->hash_count == 0 ||
        notice->token_count != (uint64_t)notice->hash_count * notice->block_tokens) {
        return false;
    }
    if (holdings->block_tokens == 0) {
        holdings->block_tokens = notice->block_tokens;
    }
    if (notice->block_tokens > holdings->block_tokens && notice->tier == PREFIX_GPU) {
        forget_all(holdings);
        holdings->block_tokens = notice->block_tokens;
    }
    return notice->block_tokens == holdings->block_tokens;
}

static bool is_of_group(const struct kv_holdings *holdings, const struct kv_notice *notice)
{
    return !notice->has_group || !holdings->has_group || notice->group == holdings->group;
}

// The tier comes behind the tokens; mostly it is the GPU.
void kv_holdings_prefetch(void *holdings, const uint64_t *hashes, uint32_t count)
{
    kv_names_prefetch(((struct kv_holdings *)holdings)->names, hashes, count, PREFIX_GPU);
}

static void apply_stored(struct kv_holdings *holdings, const struct kv_notice *notice,
                         uint64_t now_ms)
{
    if (notice->has_parent) {
        kv_names_prefetch(holdings->names, &notice->parent, 1, notice->tier);
    }
    kv_holdings_settle(holdings);
    if (notice->block_tokens == 0 || notice->token_count == 0) {
        apply_placeholder(holdings, notice);
        return;
    }
    if (!is_of_size(holdings, notice)) {
        holdings->counts.ignored++;
        return;
    }
    if (notice->has_group && !holdings->has_group) {
        holdings->has_group = true;
        holdings->group = notice->group;
    }
    holdings->counts.stored += notice->hash_count;
    holdings->tokens_stored += notice->tier == PREFIX_GPU ? notice->token_count : 0;
    struct tail tail = {0};
    if (notice->has_parent) {
        tail.place = find_in_any(holdings, notice->parent, notice->tier);
    }
    if (tail.place != 0) {
        tail.key = prefix_ledger_key(holdings->ledger, tail.place);
    } else if (!notice->has_parent || notice->may_begin) {
        tail.key =
            prefix_seed(&(struct prefix_space){.adapter = notice->adapter, .salt = notice->salt});
    } else {
        holdings->counts.orphans++;
        holdings->counts.orphans_lost += kv_orphans_keep(holdings->orphans, notice, now_ms);
        return;
    }
    uint32_t count = store_blocks(holdings, notice, tail);
    if (kv_orphans_count(holdings->orphans) > 0) {
        adopt(holdings, notice, count);
    }
}

void kv_holdings_apply(struct kv_holdings *holdings, const struct kv_notice *notice,
                       uint64_t now_ms)
{
    struct kv_holdings_counts *counts = &holdings->counts;
    if (kv_orphans_are_due(holdings->orphans, now_ms)) {
        kv_holdings_settle(holdings); // its removals may be of orphans that expire now
        counts->orphans_lost += kv_orphans_expire(holdings->orphans, now_ms);
    }
    switch (notice->kind) {
    case KV_NOTICE_STORED:
        if (notice->is_remote || !notice->decides || !notice->is_plain ||
            !is_of_group(holdings, notice)) {
            counts->ignored++;
        } else {
            apply_stored(holdings, notice, now_ms);
        }
        break;
    case KV_NOTICE_REMOVED:
        if (notice->is_remote || !is_of_group(holdings, notice)) {
            counts->ignored++;
        } else {
            apply_removed(holdings, notice);
        }
        break;
    case KV_NOTICE_CLEARED:
        kv_holdings_settle(holdings);
        forget_tier(holdings, PREFIX_GPU);
        counts->cleared++;
        break;
    case KV_NOTICE_UNKNOWN:
        counts->unknown_kinds++;
        break;
    case KV_NOTICE_MALFORMED:
        counts->malformed++;
        break;
    }
}

uint32_t kv_holdings_block_tokens(const struct kv_holdings *holdings)
{
    return holdings->block_tokens;
}

uint64_t kv_holdings_tokens_stored(const struct kv_holdings *holdings)
{
    return holdings->tokens_stored;
}

uint64_t kv_holdings_block_count(const struct kv_holdings *holdings)
{
    return kv_names_count(holdings->names);
}

uint32_t kv_holdings_orphan_count(const struct kv_holdings *holdings)
{
    return kv_orphans_count(holdings->orphans);
}

const struct kv_holdings_counts *kv_holdings_counts(const struct kv_holdings *holdings)
{
    return &holdings->counts;
}
