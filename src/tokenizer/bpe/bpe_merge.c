// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_merge.h"

#include "base/base.h"
#include "tokenizer/bpe/bit_tree.h"

#include <stdlib.h>

enum {
    short_max = 32, // symbols that are scanned
    heap_max = 512, // symbols that only use the heap, which then stays in the cache
    no_place = UINT32_MAX,
};

struct merge_symbol {
    uint32_t id;
    uint32_t before;
    uint32_t behind;
    uint32_t order; // of it and the one behind; bpe_order_none after it was merged away
};

// Places in the list of an order, the newest first; the list goes on at `next`.  A place may have
// changed since it was merge_put there.  Three together, since each step along the list may miss
// the cache.
enum { waiting_place_count = 3 };
struct waiting_places {
    uint32_t next;
    uint32_t places[waiting_place_count]; // from the end; the first ones may be no_place
};

struct bpe_room {
    uint32_t symbol_max;
    struct merge_symbol *symbols;
    struct waiting_places *waiting; // three a symbol: each merge adds two
    uint32_t *lists;                // by order: the first that waits
    uint64_t *heap;                 // order and place, of orders below the one taken
    uint32_t waiting_count;
    uint32_t heap_count;
    uint32_t taken; // the order
    struct bit_tree orders;
    struct bit_tree places;
};

struct bpe_room *bpe_room_create(uint32_t order_count, uint32_t symbol_max)
{
    ASSERT(symbol_max > 0 && order_count <= bpe_order_none);
    struct bpe_room *room = calloc(1, sizeof(*room));
    if (room == NULL) {
        return NULL;
    }
    room->symbol_max = symbol_max;
    room->symbols = malloc(sizeof(struct merge_symbol) * symbol_max);
    room->waiting = malloc(sizeof(struct waiting_places) * symbol_max * 3);
    room->heap = malloc(sizeof(uint64_t) * symbol_max * 2);
    room->lists = malloc(sizeof(uint32_t) * (order_count + 1));
    bool has_trees =
        bit_tree_init(&room->orders, order_count + 1) && bit_tree_init(&room->places, symbol_max);
    if (!has_trees || room->symbols == NULL || room->waiting == NULL || room->heap == NULL ||
        room->lists == NULL) {
        bpe_room_destroy(&room);
    }
    return room;
}

void bpe_room_destroy(struct bpe_room **room)
{
    if (*room != NULL) {
        bit_tree_fini(&(*room)->orders);
        bit_tree_fini(&(*room)->places);
        free((*room)->lists);
        free((*room)->heap);
        free((*room)->waiting);
        free((*room)->symbols);
        free(*room);
    }
    *room = NULL;
}

static uint32_t merge_short(const struct bpe_table *table, uint32_t *ids, uint32_t count)
{
    uint32_t orders[short_max];
    for (uint32_t i = 0; i + 1 < count; i++) {
        orders[i] = bpe_table_order(table, ids[i], ids[i + 1]);
    }
    while (count > 1) {
        uint32_t least = bpe_order_none;
        uint32_t at = 0;
        for (uint32_t i = 0; i + 1 < count; i++) {
            at = orders[i] < least ? i : at;
            least = orders[i] < least ? orders[i] : least;
        }
        if (least == bpe_order_none) {
            break;
        }
        count--;
        ids[at] = table->merged[least];
        for (uint32_t i = at + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            orders[i - 1] = orders[i];
        }
        if (at + 1 < count) {
            orders[at] = bpe_table_order(table, ids[at], ids[at + 1]);
        }
        if (at > 0) {
            orders[at - 1] = bpe_table_order(table, ids[at - 1], ids[at]);
        }
    }
    return count;
}

static void merge_heap_add(struct bpe_room *room, uint64_t key)
{
    uint32_t at = room->heap_count++;
    for (; at > 0 && room->heap[(at - 1) / 2] > key; at = (at - 1) / 2) {
        room->heap[at] = room->heap[(at - 1) / 2];
    }
    room->heap[at] = key;
}

static uint64_t merge_heap_take(struct bpe_room *room)
{
    uint64_t least = room->heap[0];
    uint64_t last = room->heap[--room->heap_count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < room->heap_count; at = child) {
        child += child + 1 < room->heap_count && room->heap[child + 1] < room->heap[child];
        if (room->heap[child] >= last) {
            break;
        }
        room->heap[at] = room->heap[child];
    }
    room->heap[at] = last;
    return least;
}

static void merge_put_in_list(struct bpe_room *room, uint32_t place, uint32_t order)
{
    uint32_t first = no_place;
    if (bit_tree_has(&room->orders, order)) {
        first = room->lists[order];
        struct waiting_places *waiting = &room->waiting[first];
        if (waiting->places[0] == no_place) {
            waiting->places[waiting->places[1] == no_place ? 1 : 0] = place;
            return;
        }
    } else {
        bit_tree_add(&room->orders, order);
    }
    room->waiting[room->waiting_count] =
        (struct waiting_places){.next = first, .places = {no_place, no_place, place}};
    room->lists[order] = room->waiting_count++;
}

static void merge_put(struct bpe_room *room, uint32_t place, uint32_t order)
{
    if (order == bpe_order_none) {
        return;
    }
    if (order > room->taken) {
        merge_put_in_list(room, place, order);
    } else if (order == room->taken) {
        bit_tree_add(&room->places, place);
    } else {
        merge_heap_add(room, (uint64_t)order << 32 | place);
    }
}

// Prefetches the memory that the merge at this place will read, if its neighbours stay as they are.
static void prefetch_merge(const struct bpe_table *table, const struct bpe_room *room,
                           const struct merge_symbol *left)
{
    uint32_t merged = table->merged[left->order];
    uint32_t behind = room->symbols[left->behind].behind;
    if (behind != no_place) {
        bpe_table_prefetch(table, merged, room->symbols[behind].id);
    }
    if (left->before != no_place) {
        bpe_table_prefetch(table, room->symbols[left->before].id, merged);
    }
}

// Takes all places that wait for the order.
static void merge_take_order(const struct bpe_table *table, struct bpe_room *room, uint32_t order)
{
    room->taken = order;
    bit_tree_remove(&room->orders, order);
    for (uint32_t i = room->lists[order]; i != no_place; i = room->waiting[i].next) {
        for (unsigned k = 0; k < waiting_place_count; k++) {
            uint32_t place = room->waiting[i].places[k];
            if (place != no_place && room->symbols[place].order == order) {
                bit_tree_add(&room->places, place);
                prefetch_merge(table, room, &room->symbols[place]);
            }
        }
    }
}

// The next place that may merge; it may have changed since.  False when no place is left.
static bool merge_take(const struct bpe_table *table, struct bpe_room *room, uint32_t *place,
                       uint32_t *order)
{
    if (room->heap_count != 0) {
        uint64_t key = merge_heap_take(room);
        *place = (uint32_t)key;
        *order = (uint32_t)(key >> 32);
        return true;
    }
    while (bit_tree_is_empty(&room->places)) {
        if (bit_tree_is_empty(&room->orders)) {
            return false;
        }
        merge_take_order(table, room, bit_tree_least(&room->orders));
    }
    *place = bit_tree_least(&room->places);
    *order = room->taken;
    bit_tree_remove(&room->places, *place);
    return true;
}

static uint32_t merge_order_of(const struct bpe_table *table, const struct bpe_room *room,
                               const struct merge_symbol *symbol)
{
    return symbol->behind == no_place
               ? (uint32_t)bpe_order_none
               : bpe_table_order(table, symbol->id, room->symbols[symbol->behind].id);
}

static void merge_at(const struct bpe_table *table, struct bpe_room *room, uint32_t place)
{
    struct merge_symbol *left = &room->symbols[place];
    struct merge_symbol *right = &room->symbols[left->behind];
    left->id = table->merged[left->order];
    left->behind = right->behind;
    right->order = bpe_order_none;
    if (left->behind != no_place) {
        room->symbols[left->behind].before = place;
    }
    // Both lookups before either result is used: their cache misses overlap.
    left->order = merge_order_of(table, room, left);
    if (left->before != no_place) {
        struct merge_symbol *before = &room->symbols[left->before];
        before->order = merge_order_of(table, room, before);
        merge_put(room, left->before, before->order);
    }
    merge_put(room, place, left->order);
}

static uint32_t merge_long(const struct bpe_table *table, struct bpe_room *room, uint32_t *ids,
                           uint32_t count)
{
    ASSERT(count <= room->symbol_max);
    room->waiting_count = 0;
    room->heap_count = 0;
    room->taken =
        count <= heap_max ? bpe_order_none : 0; // everything is below it, or hardly anything
    for (uint32_t i = 0; i < count; i++) {
        uint32_t order =
            i + 1 < count ? bpe_table_order(table, ids[i], ids[i + 1]) : (uint32_t)bpe_order_none;
        room->symbols[i] = (struct merge_symbol){
            .id = ids[i],
            .before = i > 0 ? i - 1 : no_place,
            .behind = i + 1 < count ? i + 1 : no_place,
            .order = order,
        };
        merge_put(room, i, order);
    }
    ASSERT(room->heap_count <= 2 * room->symbol_max);
    uint32_t place;
    uint32_t order;
    while (merge_take(table, room, &place, &order)) {
        if (room->symbols[place].order == order) {
            merge_at(table, room, place);
        }
    }
    ASSERT(bit_tree_is_empty(&room->orders) && bit_tree_is_empty(&room->places));
    uint32_t left = 0;
    for (uint32_t i = 0; i != no_place; i = room->symbols[i].behind) {
        ids[left++] = room->symbols[i].id;
    }
    ASSERT(left <= count);
    return left;
}

uint32_t bpe_merge(const struct bpe_table *table, struct bpe_room *room, uint32_t *ids,
                   uint32_t count)
{
    return count <= short_max ? merge_short(table, ids, count)
                              : merge_long(table, room, ids, count);
}
