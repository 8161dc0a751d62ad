// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_names.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    line_names = 5,
    copies_max = UINT16_MAX,
    line_count_first = 8,
    slab_bits = 10, // lines of a slab: 64 KiB; a table up to that size doubles
    slab_lines = 1 << slab_bits,
    slab_size = slab_lines * 64,
    reach_max = 32, // lines between the two of a name: mostly one page
};

// The bits of a name that are kept.
struct short_name {
    uint32_t tag;
    uint16_t more;
};

// A slot without a name has no place; the rest of it is 0 too.
struct names_line {
    uint32_t tags[line_names];
    uint32_t places[line_names];
    uint16_t more[line_names];
    uint16_t copies[line_names];
    uint32_t unused;
};
_Static_assert(sizeof(struct names_line) == 64, "a cache line");

struct slab {
    struct names_line *lines;
};

struct names_table {
    struct slab *slabs; // or one piece, as long as it is smaller than a slab
    uint32_t line_count;
    uint32_t reach;    // a power of two
    uint32_t name_max; // that it takes before it grows
    uint32_t name_count;
};

struct kv_names {
    struct names_table tables[prefix_tier_count];
    struct kv_names_budget *budget;
};

static struct short_name name_of_hash(uint64_t hash)
{
    // Most engines' hashes are good, but some count.
    uint64_t mixed = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
    mixed ^= mixed >> 29;
    return (struct short_name){.tag = (uint32_t)(mixed >> 32), .more = (uint16_t)(mixed >> 16)};
}

static inline struct names_line *line_at(const struct names_table *table, uint32_t at)
{
    ASSERT_SLOW(at < table->line_count);
    return &table->slabs[at >> slab_bits].lines[at % slab_lines];
}

// The two lines where a name can be.
struct pair {
    struct names_line *near;
    struct names_line *far;
};

static inline struct pair pair_of(const struct names_table *table, struct short_name name)
{
    uint32_t near = (uint32_t)(((uint64_t)name.tag * table->line_count) >> 32);
    uint32_t far = near + 1 + (name.more & (table->reach - 1));
    far -= far >= table->line_count ? table->line_count : 0;
    return (struct pair){.near = line_at(table, near), .far = line_at(table, far)};
}

static size_t lines_size(uint32_t line_count)
{
    return line_count * sizeof(struct names_line);
}

static uint32_t slab_count(uint32_t line_count)
{
    return (line_count + slab_lines - 1) / slab_lines;
}

// NULL when the block, or memory, is spent.
static void *take_slab(struct kv_names_budget *budget)
{
    if (budget->block == NULL) {
        return aligned_alloc(64, slab_size);
    }
    void *slab = budget->free;
    if (slab != NULL) {
        memcpy(&budget->free, slab, sizeof(budget->free));
    } else if (budget->limit - budget->fresh >= slab_size) {
        slab = (char *)budget->block + budget->fresh;
        budget->fresh += slab_size;
    }
    return slab;
}

static void give_slab(struct kv_names_budget *budget, void *slab)
{
    ASSERT(budget->fresh <= budget->limit);
    if (budget->block == NULL) {
        free(slab);
    } else if (slab != NULL) {
        memcpy(slab, &budget->free, sizeof(budget->free));
        budget->free = slab;
    }
}

static void free_lines(struct names_table *table, struct kv_names_budget *budget)
{
    ASSERT(budget->used >= lines_size(table->line_count));
    if (table->slabs != NULL && table->line_count < slab_lines) {
        free(table->slabs[0].lines);
    } else if (table->slabs != NULL) {
        for (uint32_t i = 0; i < slab_count(table->line_count); i++) {
            give_slab(budget, table->slabs[i].lines);
        }
    }
    free(table->slabs);
    budget->used -= lines_size(table->line_count);
    *table = (struct names_table){0};
}

// Lines for a table that has none.  False, with none, when the budget, or memory, is spent.
static bool take_lines(struct names_table *table, uint64_t line_count,
                       struct kv_names_budget *budget)
{
    ASSERT(table->slabs == NULL && line_count > 0);
    if (line_count > UINT32_MAX / line_names || budget->used > budget->limit ||
        line_count * sizeof(struct names_line) > budget->limit - budget->used) {
        return false;
    }
    table->line_count = (uint32_t)line_count;
    table->reach = line_count < reach_max ? line_count_first : reach_max;
    table->name_max = (uint32_t)(line_count * line_names * 7 / 9);
    table->slabs = calloc(slab_count(table->line_count), sizeof(struct slab));
    budget->used += lines_size(table->line_count);
    bool is_whole = table->slabs != NULL;
    for (uint32_t i = 0; is_whole && i < slab_count(table->line_count); i++) {
        size_t size = line_count < slab_lines ? lines_size(table->line_count) : slab_size;
        void *lines = line_count < slab_lines ? aligned_alloc(64, size) : take_slab(budget);
        table->slabs[i].lines = lines;
        is_whole = lines != NULL;
        if (is_whole) {
            memset(lines, 0, size);
        }
    }
    if (!is_whole) {
        free_lines(table, budget);
    }
    return is_whole;
}

struct kv_names *kv_names_create(struct kv_names_budget *budget)
{
    ASSERT(budget != NULL);
    struct kv_names *names = calloc(1, sizeof(*names));
    if (names != NULL) {
        names->budget = budget;
    }
    return names;
}

void kv_names_destroy(struct kv_names **names)
{
    if (*names == NULL) {
        return;
    }
    for (enum prefix_tier tier = 0; tier < prefix_tier_count; tier++) {
        kv_names_clear(*names, tier);
    }
    free(*names);
    *names = NULL;
}

uint64_t kv_names_count(const struct kv_names *names)
{
    uint64_t count = 0;
    for (enum prefix_tier tier = 0; tier < prefix_tier_count; tier++) {
        count += names->tables[tier].name_count;
    }
    return count;
}

// Where a name is.
struct spot {
    struct names_line *line;
    uint32_t slot; // line_names: it is not there
};

// Slots are bits: which one matches is unpredictable, so no branch depends on it.
static inline uint32_t slots_equal(const uint32_t words[line_names], uint32_t word)
{
#if defined(__SSE2__)
    __m128i wanted = _mm_set1_epi32((int)word);
    __m128i first = _mm_loadu_si128((const __m128i *)(const void *)words);
    __m128i last = _mm_loadu_si128((const __m128i *)(const void *)(words + line_names - 4));
    int first_slots = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(first, wanted)));
    int last_slots = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(last, wanted)));
    return (uint32_t)(first_slots | last_slots << (line_names - 4));
#else
    uint32_t slots = 0;
    for (uint32_t i = 0; i < line_names; i++) {
        slots |= (uint32_t)(words[i] == word) << i;
    }
    return slots;
#endif
}

static inline uint32_t free_slots(const struct names_line *line)
{
    return slots_equal(line->places, 0);
}

static inline uint32_t first_slot(uint32_t slots)
{
    return (uint32_t)__builtin_ctz(slots | 1U << line_names);
}

static inline struct spot find_name(struct pair pair, struct short_name name)
{
    enum { far_bits = 8 };
    uint32_t slots = slots_equal(pair.near->tags, name.tag) | slots_equal(pair.far->tags, name.tag)
                                                                  << far_bits;
    for (; slots != 0; slots &= slots - 1) {
        uint32_t bit = (uint32_t)__builtin_ctz(slots);
        struct spot spot = {.line = bit < far_bits ? pair.near : pair.far, .slot = bit % far_bits};
        if (spot.line->more[spot.slot] == name.more && spot.line->places[spot.slot] != 0) {
            return spot;
        }
    }
    return (struct spot){.slot = line_names};
}

static void put_name(struct spot to, struct short_name name, uint32_t place, uint32_t copies)
{
    ASSERT_SLOW(to.slot < line_names);
    to.line->tags[to.slot] = name.tag;
    to.line->more[to.slot] = name.more;
    to.line->places[to.slot] = place;
    to.line->copies[to.slot] = (uint16_t)copies;
}

static struct short_name name_at(const struct names_line *line, uint32_t slot)
{
    return (struct short_name){.tag = line->tags[slot], .more = line->more[slot]};
}

static void move_name(struct names_line *from, uint32_t slot, struct spot to)
{
    put_name(to, name_at(from, slot), from->places[slot], from->copies[slot]);
}

static struct names_line *other_line(const struct names_table *table, const struct names_line *line,
                                     uint32_t slot)
{
    struct pair pair = pair_of(table, name_at(line, slot));
    return pair.near == line ? pair.far : pair.near;
}

// A slot of a full line whose name has moved to its other line.  With `goes_on`, if that line is
// full too, one of its names makes room first.
static struct spot make_line_room(const struct names_table *table, struct names_line *full,
                                  bool goes_on)
{
    for (uint32_t i = 0; i < line_names; i++) {
        struct names_line *other = other_line(table, full, i);
        struct spot spot = {.line = other, .slot = first_slot(free_slots(other))};
        if (spot.slot == line_names && goes_on && other != full) {
            spot = make_line_room(table, other, false);
        }
        if (spot.slot < line_names) {
            move_name(full, i, spot);
            return (struct spot){.line = full, .slot = i};
        }
    }
    return (struct spot){.slot = line_names};
}

static struct spot make_room_in_pair(const struct names_table *table, struct pair pair)
{
    struct spot spot = make_line_room(table, pair.near, false);
    spot = spot.slot < line_names ? spot : make_line_room(table, pair.far, false);
    spot = spot.slot < line_names ? spot : make_line_room(table, pair.near, true);
    return spot.slot < line_names ? spot : make_line_room(table, pair.far, true);
}

// A slot for a new name, in the emptier of its lines.  line_names: both are full.
static inline struct spot room_for(const struct names_table *table, struct pair pair)
{
    static const uint8_t counts[1 << line_names] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                                    1, 2, 2, 3, 2, 3, 3, 4, 2, 3, 3, 4, 3, 4, 4, 5};
    ASSERT(pair.near != NULL && pair.far != NULL); // the table has lines
    uint32_t near = free_slots(pair.near);
    uint32_t far = free_slots(pair.far);
    bool is_near = counts[near] >= counts[far];
    struct spot spot = {.line = is_near ? pair.near : pair.far,
                        .slot = first_slot(is_near ? near : far)};
    return spot.slot < line_names ? spot : make_room_in_pair(table, pair);
}

// False when a name finds no room.
static bool sweep_table(const struct names_table *from, const struct names_table *to)
{
    for (uint32_t at = 0; at < from->line_count; at++) {
        struct names_line *line = line_at(from, at);
        for (uint32_t i = 0; i < line_names; i++) {
            if (line->places[i] == 0) {
                continue;
            }
            struct spot spot = room_for(to, pair_of(to, name_at(line, i)));
            if (spot.slot == line_names) {
                return false;
            }
            move_name(line, i, spot);
        }
    }
    return true;
}

static uint64_t larger_line_count(uint64_t line_count)
{
    if (line_count < slab_lines) {
        return line_count == 0 ? line_count_first : line_count * 2;
    }
    uint64_t slabs = line_count / slab_lines;
    return (slabs + (slabs < 8 ? 1 : slabs / 8)) * slab_lines;
}

// False when the budget, or memory, is spent.
static bool grow_table(struct names_table *table, struct kv_names_budget *budget)
{
    struct names_table larger = {0};
    uint64_t line_count = table->line_count;
    do {
        free_lines(&larger, budget);
        line_count = larger_line_count(line_count);
        if (!take_lines(&larger, line_count, budget)) {
            return false;
        }
    } while (!sweep_table(table, &larger));
    larger.name_count = table->name_count;
    free_lines(table, budget);
    *table = larger;
    return true;
}

// Where the name of a hash is.
static inline struct spot find_hash(const struct names_table *table, uint64_t hash)
{
    struct short_name name = name_of_hash(hash);
    return table->name_count > 0 ? find_name(pair_of(table, name), name)
                                 : (struct spot){.slot = line_names};
}

uint32_t kv_names_find(const struct kv_names *names, uint64_t hash, enum prefix_tier tier)
{
    ASSERT_SLOW(tier < prefix_tier_count);
    struct spot spot = find_hash(&names->tables[tier], hash);
    return spot.slot < line_names ? spot.line->places[spot.slot] : 0;
}

// A copy more of a name that is there.  Returns the place that it had.
static uint32_t add_copy(struct spot spot, uint32_t place)
{
    ASSERT(spot.slot < line_names && place != 0);
    uint32_t before = spot.line->places[spot.slot];
    uint16_t *copies = &spot.line->copies[spot.slot];
    spot.line->places[spot.slot] = place;
    if (before != place) {
        *copies = 1;
    } else if (*copies < copies_max) {
        *copies += 1;
    }
    return before;
}

struct kv_names_added kv_names_add(struct kv_names *names, uint64_t hash, enum prefix_tier tier,
                                   uint32_t place)
{
    ASSERT(place != 0);
    struct names_table *table = &names->tables[tier];
    struct short_name name = name_of_hash(hash);
    if (table->line_count == 0 && !grow_table(table, names->budget)) {
        return (struct kv_names_added){.is_full = true};
    }
    struct pair pair = pair_of(table, name);
    struct spot spot = find_name(pair, name);
    if (spot.slot < line_names) {
        return (struct kv_names_added){.before = add_copy(spot, place)};
    }
    while (table->name_count == table->name_max ||
           (spot = room_for(table, pair)).slot == line_names) {
        if (!grow_table(table, names->budget)) {
            return (struct kv_names_added){.is_full = true};
        }
        pair = pair_of(table, name);
    }
    put_name(spot, name, place, 1);
    table->name_count++;
    return (struct kv_names_added){0};
}

static uint32_t copies_after(uint32_t copies, int64_t copies_left)
{
    ASSERT(copies_left >= kv_names_one_less && copies > 0);
    if (copies_left != kv_names_one_less) {
        return copies_left < copies_max ? (uint32_t)copies_left : copies_max;
    }
    return copies == copies_max ? copies_max : copies - 1;
}

struct kv_names_gone kv_names_remove(struct kv_names *names, uint64_t hash, enum prefix_tier tier,
                                     int64_t copies_left)
{
    struct names_table *table = &names->tables[tier];
    struct spot spot = find_hash(table, hash);
    if (spot.slot == line_names) {
        return (struct kv_names_gone){0};
    }
    uint32_t place = spot.line->places[spot.slot];
    uint32_t left = copies_after(spot.line->copies[spot.slot], copies_left);
    if (left != 0) {
        spot.line->copies[spot.slot] = (uint16_t)left;
        return (struct kv_names_gone){.place = place};
    }
    put_name(spot, (struct short_name){0}, 0, 0);
    table->name_count--;
    return (struct kv_names_gone){.place = place, .is_last = true};
}

void kv_names_prefetch(const struct kv_names *names, const uint64_t *hashes, uint32_t count,
                       enum prefix_tier tier)
{
    // A copy, which nothing else can change: its fields stay in registers.
    struct names_table table = names->tables[tier];
    for (uint32_t i = 0; i < count && table.line_count != 0; i++) {
        struct pair pair = pair_of(&table, name_of_hash(hashes[i]));
        __builtin_prefetch(pair.near, 1);
        __builtin_prefetch(pair.far, 1);
    }
}

void kv_names_prefetch_room(const struct kv_names *names, const uint64_t *hashes, uint32_t count,
                            enum prefix_tier tier)
{
    struct names_table table = names->tables[tier];
    for (uint32_t i = 0; i < count && table.line_count != 0; i++) {
        struct pair pair = pair_of(&table, name_of_hash(hashes[i]));
        if ((free_slots(pair.near) | free_slots(pair.far)) == 0) {
            // make_line_room mostly finds it in one of the first two.
            __builtin_prefetch(other_line(&table, pair.near, 0), 1);
            __builtin_prefetch(other_line(&table, pair.near, 1), 1);
        }
    }
}

void kv_names_each(const struct kv_names *names, enum prefix_tier tier,
                   void (*visit)(void *owner, uint32_t place), void *owner)
{
    const struct names_table *table = &names->tables[tier];
    for (uint32_t at = 0; at < table->line_count; at++) {
        for (uint32_t i = 0; i < line_names; i++) {
            if (line_at(table, at)->places[i] != 0) {
                visit(owner, line_at(table, at)->places[i]);
            }
        }
    }
}

void kv_names_clear(struct kv_names *names, enum prefix_tier tier)
{
    free_lines(&names->tables[tier], names->budget);
}
