// SPDX-License-Identifier: Apache-2.0

#include "chronicle/decision_ring.h"

#include "base/base.h"
#include "base/hash.h"

#include <stdlib.h>

enum { none = UINT32_MAX, line_size = 64 };

enum index { BY_ID, BY_REQUEST, INDEX_COUNT };

// Apart from the receipts: walking chains should not walk those.
struct place {
    uint64_t hashes[INDEX_COUNT];
    uint64_t number; // with `worker`: the request
    uint32_t worker;
    bool is_running;
    uint32_t next[INDEX_COUNT]; // of the chain, which begins with the latest
    uint32_t
        previous[INDEX_COUNT]; // so that a client who gives one id to all does not make it slow
    uint32_t newer;
    uint32_t older;
    struct chronicle_decision decision;
};

struct decision_ring {
    uint32_t decision_max;
    uint32_t used; // places, from the first on
    uint32_t mask;
    uint32_t newest;
    uint32_t oldest;
    uint64_t serial; // of the last change
    struct place *places;
    uint8_t *receipts;
    uint32_t *heads[INDEX_COUNT];
};

static uint32_t *make_heads(uint32_t count)
{
    uint32_t *heads = malloc(count * sizeof(*heads));
    for (uint32_t i = 0; heads != NULL && i < count; i++) {
        heads[i] = none;
    }
    return heads;
}

struct decision_ring *decision_ring_create(uint32_t decision_max)
{
    struct decision_ring *ring = calloc(1, sizeof(*ring));
    if (ring == NULL) {
        return NULL;
    }
    uint32_t head_count = 1;
    while (head_count < 2 * (uint64_t)decision_max) {
        head_count *= 2;
    }
    ring->decision_max = decision_max;
    ring->mask = head_count - 1;
    ring->newest = none;
    ring->oldest = none;
    ring->places = calloc(decision_max + 1, sizeof(*ring->places));
    ring->receipts = calloc(decision_max + 1, receipt_size_max);
    ring->heads[BY_ID] = make_heads(head_count);
    ring->heads[BY_REQUEST] = make_heads(head_count);
    if (ring->places == NULL || ring->receipts == NULL || ring->heads[BY_ID] == NULL ||
        ring->heads[BY_REQUEST] == NULL) {
        decision_ring_destroy(&ring);
    }
    return ring;
}

void decision_ring_destroy(struct decision_ring **ring)
{
    if (*ring != NULL) {
        free((*ring)->places);
        free((*ring)->receipts);
        free((*ring)->heads[BY_ID]);
        free((*ring)->heads[BY_REQUEST]);
        free(*ring);
        *ring = NULL;
    }
}

static struct receipt *receipt_at(const struct decision_ring *ring, uint32_t place)
{
    return (struct receipt *)(ring->receipts + (size_t)place * receipt_size_max);
}

static uint32_t *head_of(const struct decision_ring *ring, enum index index, uint64_t hash)
{
    return &ring->heads[index][hash & ring->mask];
}

static void chain_in(struct decision_ring *ring, enum index index, uint32_t place)
{
    struct place *own = &ring->places[place];
    uint32_t *head = head_of(ring, index, own->hashes[index]);

    own->next[index] = *head;
    own->previous[index] = none;
    if (*head != none) {
        ring->places[*head].previous[index] = place;
    }
    *head = place;
}

static void chain_out(struct decision_ring *ring, enum index index, uint32_t place)
{
    const struct place *own = &ring->places[place];
    uint32_t previous = own->previous[index];

    *(previous == none ? head_of(ring, index, own->hashes[index])
                       : &ring->places[previous].next[index]) = own->next[index];
    if (own->next[index] != none) {
        ring->places[own->next[index]].previous[index] = previous;
    }
}

static void order_in(struct decision_ring *ring, uint32_t place)
{
    ring->places[place].newer = none;
    ring->places[place].older = ring->newest;
    *(ring->newest == none ? &ring->oldest : &ring->places[ring->newest].newer) = place;
    ring->newest = place;
}

static void order_out(struct decision_ring *ring, uint32_t place)
{
    const struct place *own = &ring->places[place];
    *(own->newer == none ? &ring->newest : &ring->places[own->newer].older) = own->older;
    *(own->older == none ? &ring->oldest : &ring->places[own->older].newer) = own->newer;
}

// Workers count their requests themselves: the next one has the next place of the table.
static uint64_t request_hash(const struct receipt *receipt)
{
    return receipt->number + receipt->worker * 0x9e3779b97f4a7c15;
}

// Ids that may have been cut have the hash of what is left, so that this is enough to find them.
static uint64_t id_hash(const struct receipt *receipt)
{
    if (receipt->id_size < receipt_text_max) {
        return receipt->id_hash;
    }
    struct receipt_parts parts;
    receipt_parts(receipt, &parts);
    return hash_bytes(parts.id, 0);
}

static uint32_t find_request(const struct decision_ring *ring, const struct receipt *receipt)
{
    uint32_t place = *head_of(ring, BY_REQUEST, request_hash(receipt));
    while (place != none && (ring->places[place].worker != receipt->worker ||
                             ring->places[place].number != receipt->number)) {
        place = ring->places[place].next[BY_REQUEST];
    }
    return place;
}

// A place that is in no chain and in no order: that of the same request, one that was never used, or the oldest.
static uint32_t take_place(struct decision_ring *ring, uint32_t same)
{
    if (same == none && ring->used < ring->decision_max) {
        return ring->used++;
    }
    uint32_t place = same == none ? ring->oldest : same;
    order_out(ring, place);
    chain_out(ring, BY_ID, place);
    chain_out(ring, BY_REQUEST, place);
    return place;
}

// Asks for the lines that the next receipt will need, if it is as large as the last.
static void await_next(const struct decision_ring *ring, size_t size)
{
    uint32_t next = ring->used < ring->decision_max ? ring->used : ring->oldest;
    const uint8_t *receipt = ring->receipts + (size_t)next * receipt_size_max;

    for (size_t at = 0; at < size; at += line_size) {
        __builtin_prefetch(receipt + at, 1);
    }
    __builtin_prefetch(head_of(ring, BY_ID, ring->places[next].hashes[BY_ID]), 1);
}

void decision_ring_put(struct decision_ring *ring, const struct receipt *receipt,
                       const struct chronicle_decision *decision)
{
    if (ring->decision_max == 0) {
        return;
    }
    uint32_t same = find_request(ring, receipt);
    bool is_running = receipt->outcome == RECEIPT_RUNNING;
    // What is over does not run again.
    if (same != none && is_running && !ring->places[same].is_running) {
        return;
    }
    uint32_t place = take_place(ring, same);
    struct place *own = &ring->places[place];
    size_t size = receipt_size(receipt);

    ASSERT(size <= receipt_size_max);
    memcpy(receipt_at(ring, place), receipt, size);
    own->hashes[BY_ID] = id_hash(receipt);
    own->hashes[BY_REQUEST] = request_hash(receipt);
    own->number = receipt->number;
    own->worker = receipt->worker;
    own->is_running = is_running;
    own->decision = *decision;
    own->decision.serial = ++ring->serial;
    own->decision.receipt = receipt_at(ring, place);
    chain_in(ring, BY_ID, place);
    chain_in(ring, BY_REQUEST, place);
    order_in(ring, place);
    await_next(ring, size);
}

bool decision_ring_find(const struct decision_ring *ring, struct slice id,
                        struct chronicle_decision *out)
{
    struct slice kept = slice_of(id.bytes, id.size < receipt_text_max ? id.size : receipt_text_max);
    uint64_t hash = hash_bytes(kept, 0);
    uint32_t place = *head_of(ring, BY_ID, hash);

    while (place != none) {
        const struct place *own = &ring->places[place];
        struct receipt_parts parts;
        receipt_parts(own->decision.receipt, &parts);
        if (own->hashes[BY_ID] == hash && slice_equal(parts.id, kept)) {
            *out = own->decision;
            return true;
        }
        place = own->next[BY_ID];
    }
    return false;
}

uint32_t decision_ring_list(const struct decision_ring *ring, uint64_t since,
                            struct chronicle_decision *out, uint32_t out_max)
{
    uint32_t count = 0;
    uint32_t place = ring->newest;

    while (count < out_max && place != none && ring->places[place].decision.serial > since) {
        out[count++] = ring->places[place].decision;
        place = ring->places[place].older;
    }
    return count;
}
