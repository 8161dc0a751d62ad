// SPDX-License-Identifier: Apache-2.0

#include "chronicle/decision_ring.h"

#include "base/base.h"
#include "base/hash.h"

#include <stdlib.h>

enum { none = UINT32_MAX, line_size = 64 };

// BY_AGE has one chain of all; the others are tables of chains.
enum decision_index { BY_ID, BY_REQUEST, BY_AGE, INDEX_COUNT };

// Apart from the receipts, so that walking a chain touches little memory.
struct decision_place {
    uint64_t hashes[INDEX_COUNT];
    uint64_t number; // with `worker`: the request
    uint32_t worker;
    bool is_running;
    uint32_t next[INDEX_COUNT];     // of its chain, which begins with the newest
    uint32_t previous[INDEX_COUNT]; // removal is quick even if all requests have the same id
    struct chronicle_decision decision;
};

struct decision_ring {
    uint32_t decision_max;
    uint32_t used; // places, from the first on
    uint32_t mask;
    uint32_t oldest;
    uint64_t serial; // of the last change
    struct decision_place *places;
    uint8_t *receipts;
    uint32_t *heads; // mask + 1 of each index; of BY_AGE only the first is used
};

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
    ring->oldest = none;
    ring->places = calloc(decision_max + 1, sizeof(*ring->places));
    ring->receipts = calloc(decision_max + 1, receipt_size_max);
    ring->heads = malloc((size_t)INDEX_COUNT * head_count * sizeof(*ring->heads));
    if (ring->places == NULL || ring->receipts == NULL || ring->heads == NULL) {
        decision_ring_destroy(&ring);
        return NULL;
    }
    for (uint32_t i = 0; i < INDEX_COUNT * head_count; i++) {
        ring->heads[i] = none;
    }
    return ring;
}

void decision_ring_destroy(struct decision_ring **ring)
{
    if (*ring != NULL) {
        free((*ring)->places);
        free((*ring)->receipts);
        free((*ring)->heads);
        free(*ring);
        *ring = NULL;
    }
}

static struct receipt *decision_ring_receipt_at(const struct decision_ring *ring, uint32_t place)
{
    return (struct receipt *)(ring->receipts + (size_t)place * receipt_size_max);
}

static uint32_t *decision_ring_head_of(const struct decision_ring *ring, enum decision_index index,
                                       uint64_t hash)
{
    return &ring->heads[(size_t)index * (ring->mask + 1) + (hash & ring->mask)];
}

static void decision_ring_chain_in(struct decision_ring *ring, enum decision_index index,
                                   uint32_t place)
{
    struct decision_place *own = &ring->places[place];
    uint32_t *head = decision_ring_head_of(ring, index, own->hashes[index]);

    own->next[index] = *head;
    own->previous[index] = none;
    if (*head != none) {
        ring->places[*head].previous[index] = place;
    }
    *head = place;
}

static void decision_ring_chain_out(struct decision_ring *ring, enum decision_index index,
                                    uint32_t place)
{
    const struct decision_place *own = &ring->places[place];
    uint32_t previous = own->previous[index];

    *(previous == none ? decision_ring_head_of(ring, index, own->hashes[index])
                       : &ring->places[previous].next[index]) = own->next[index];
    if (own->next[index] != none) {
        ring->places[own->next[index]].previous[index] = previous;
    }
}

// Requests of a worker have consecutive numbers, hence neighbouring heads of the table.
static uint64_t decision_ring_hash_request(const struct receipt *receipt)
{
    return receipt->number + receipt->worker * 0x9e3779b97f4a7c15;
}

// An id that may have been cut is hashed as it was kept, so that it can be found.
static uint64_t decision_ring_hash_id(const struct receipt *receipt)
{
    if (receipt->id_size < receipt_text_max) {
        return receipt->id_hash;
    }
    struct receipt_parts parts;
    receipt_parts(receipt, &parts);
    return hash_bytes(parts.id, 0);
}

static uint32_t decision_ring_find_request(const struct decision_ring *ring,
                                           const struct receipt *receipt)
{
    uint32_t place = *decision_ring_head_of(ring, BY_REQUEST, decision_ring_hash_request(receipt));
    while (place != none && (ring->places[place].worker != receipt->worker ||
                             ring->places[place].number != receipt->number)) {
        place = ring->places[place].next[BY_REQUEST];
    }
    return place;
}

// A place that is in no chain: that of the same request, one that was never used, or the oldest.
static uint32_t decision_ring_take_place(struct decision_ring *ring, uint32_t same)
{
    if (same == none && ring->used < ring->decision_max) {
        return ring->used++;
    }
    uint32_t place = same == none ? ring->oldest : same;
    if (place == ring->oldest) {
        ring->oldest = ring->places[place].previous[BY_AGE];
    }
    for (int i = 0; i < INDEX_COUNT; i++) {
        decision_ring_chain_out(ring, (enum decision_index)i, place);
    }
    return place;
}

// Prefetches the memory of the next receipt, assuming that it is as large as the last one.
static void decision_ring_prefetch(const struct decision_ring *ring, size_t size)
{
    uint32_t next = ring->used < ring->decision_max ? ring->used : ring->oldest;
    const uint8_t *receipt = ring->receipts + (size_t)next * receipt_size_max;

    for (size_t at = 0; at < size; at += line_size) {
        __builtin_prefetch(receipt + at, 1);
    }
    __builtin_prefetch(decision_ring_head_of(ring, BY_ID, ring->places[next].hashes[BY_ID]), 1);
}

void decision_ring_put(struct decision_ring *ring, const struct receipt *receipt,
                       const struct chronicle_decision *decision)
{
    if (ring->decision_max == 0) {
        return;
    }
    uint32_t same = decision_ring_find_request(ring, receipt);
    bool is_running = receipt->outcome == RECEIPT_RUNNING;
    // An announcement that comes after the end is ignored.
    if (same != none && is_running && !ring->places[same].is_running) {
        return;
    }
    uint32_t place = decision_ring_take_place(ring, same);
    struct decision_place *own = &ring->places[place];
    size_t size = receipt_size(receipt);

    ASSERT(size <= receipt_size_max);
    memcpy(decision_ring_receipt_at(ring, place), receipt, size);
    own->hashes[BY_ID] = decision_ring_hash_id(receipt);
    own->hashes[BY_REQUEST] = decision_ring_hash_request(receipt);
    own->number = receipt->number;
    own->worker = receipt->worker;
    own->is_running = is_running;
    own->decision = *decision;
    own->decision.serial = ++ring->serial;
    own->decision.receipt = decision_ring_receipt_at(ring, place);
    for (int i = 0; i < INDEX_COUNT; i++) {
        decision_ring_chain_in(ring, (enum decision_index)i, place);
    }
    ring->oldest = ring->oldest == none ? place : ring->oldest;
    decision_ring_prefetch(ring, size);
}

bool decision_ring_find(const struct decision_ring *ring, struct slice id,
                        struct chronicle_decision *out)
{
    struct slice kept = slice_of(id.bytes, id.size < receipt_text_max ? id.size : receipt_text_max);
    uint64_t hash = hash_bytes(kept, 0);
    uint32_t place = *decision_ring_head_of(ring, BY_ID, hash);

    while (place != none) {
        const struct decision_place *own = &ring->places[place];
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
    uint32_t place = *decision_ring_head_of(ring, BY_AGE, 0);

    while (count < out_max && place != none && ring->places[place].decision.serial > since) {
        out[count++] = ring->places[place].decision;
        place = ring->places[place].next[BY_AGE];
    }
    return count;
}
