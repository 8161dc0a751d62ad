// SPDX-License-Identifier: Apache-2.0

#include "metrics/decision_ring.h"

#include "base/base.h"
#include "base/hash.h"

#include <stdlib.h>

enum { none = UINT32_MAX };

enum index { BY_ID, BY_REQUEST, INDEX_COUNT };

// Apart from the receipts: walking chains should not walk those.
struct place {
    uint64_t hashes[INDEX_COUNT];
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
    uint64_t seed;
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

struct decision_ring *decision_ring_create(uint32_t decision_max, uint64_t seed)
{
    struct decision_ring *ring = calloc(1, sizeof(*ring));
    if (ring == NULL) {
        return NULL;
    }
    uint32_t head_count = 1;
    while (head_count < decision_max) {
        head_count *= 2;
    }
    ring->decision_max = decision_max;
    ring->mask = head_count - 1;
    ring->newest = none;
    ring->oldest = none;
    ring->seed = seed;
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

static uint32_t find_request(const struct decision_ring *ring, const struct receipt *receipt,
                             uint64_t hash)
{
    uint32_t place = *head_of(ring, BY_REQUEST, hash);
    while (place != none) {
        const struct receipt *other = receipt_at(ring, place);
        if (ring->places[place].hashes[BY_REQUEST] == hash && other->worker == receipt->worker &&
            other->number == receipt->number) {
            break;
        }
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

void decision_ring_put(struct decision_ring *ring, const struct receipt *receipt,
                       const struct chronicle_decision *decision)
{
    if (ring->decision_max == 0) {
        return;
    }
    uint64_t hash = hash_pair(receipt->worker, receipt->number);
    uint32_t same = find_request(ring, receipt, hash);
    // What is over does not run again.
    if (same != none && receipt->outcome == RECEIPT_RUNNING &&
        receipt_at(ring, same)->outcome != RECEIPT_RUNNING) {
        return;
    }
    uint32_t place = take_place(ring, same);
    struct place *own = &ring->places[place];
    struct receipt_parts parts;

    ASSERT(receipt_size(receipt) <= receipt_size_max);
    memcpy(receipt_at(ring, place), receipt, receipt_size(receipt));
    receipt_parts(receipt, &parts);
    own->hashes[BY_ID] = hash_bytes(parts.id, ring->seed);
    own->hashes[BY_REQUEST] = hash;
    own->decision = *decision;
    own->decision.serial = ++ring->serial;
    own->decision.receipt = receipt_at(ring, place);
    chain_in(ring, BY_ID, place);
    chain_in(ring, BY_REQUEST, place);
    order_in(ring, place);
}

bool decision_ring_find(const struct decision_ring *ring, struct slice id,
                        struct chronicle_decision *out)
{
    struct slice kept = slice_of(id.bytes, id.size < receipt_text_max ? id.size : receipt_text_max);
    uint64_t hash = hash_bytes(kept, ring->seed);
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
