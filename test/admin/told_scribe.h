// SPDX-License-Identifier: Apache-2.0
//
// told_scribe.h -- a scribe whose chronicle says what a test tells it to.
//
// Takes the place of scribe.c and chronicle.c in the program that includes it: the linker takes
// from our archive only what is missing.
#pragma once

#include "base/base.h"
#include "scribe/scribe.h"

#include <math.h>

enum { told_max = 64 };

struct told_receipt {
    struct chronicle_decision decision;
    _Alignas(uint64_t) uint8_t bytes[receipt_size_max];
};

struct chronicle {
    struct chronicle_figures recent;
    struct chronicle_figures total;
    uint64_t backend; // the one of which something is known
    struct chronicle_figures lately;
    struct chronicle_point points[told_max];
    uint32_t point_count;
    struct chronicle_prefix prefixes[told_max];
    uint32_t prefix_count;
    struct told_receipt decisions[told_max]; // oldest first
    uint32_t decision_count;
};

struct scribe {
    struct chronicle chronicle;
    struct scribe_totals totals;
    bool is_locked;
};

struct chronicle *scribe_lock(struct scribe *scribe)
{
    ASSERT(!scribe->is_locked);
    scribe->is_locked = true;
    return &scribe->chronicle;
}

void scribe_unlock(struct scribe *scribe)
{
    ASSERT(scribe->is_locked);
    scribe->is_locked = false;
}

void scribe_totals(const struct scribe *scribe, struct scribe_totals *out)
{
    ASSERT(!scribe->is_locked);
    *out = scribe->totals;
}

void chronicle_recent(const struct chronicle *chronicle, struct chronicle_figures *out)
{
    *out = chronicle->recent;
}

void chronicle_total(const struct chronicle *chronicle, struct chronicle_figures *out)
{
    *out = chronicle->total;
}

bool chronicle_backend(const struct chronicle *chronicle, uint32_t slot, uint64_t id,
                       struct chronicle_figures *out)
{
    (void)slot;
    *out = chronicle->backend == id ? chronicle->lately : (struct chronicle_figures){0};
    return chronicle->backend == id;
}

uint32_t chronicle_points(const struct chronicle *chronicle, uint64_t since_ms,
                          struct chronicle_point *out, uint32_t out_max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < chronicle->point_count && count < out_max; i++) {
        if (chronicle->points[i].wall_ms > since_ms) {
            out[count++] = chronicle->points[i];
        }
    }
    return count;
}

uint32_t chronicle_prefixes(const struct chronicle *chronicle, struct chronicle_prefix *out,
                            uint32_t out_max)
{
    uint32_t count = chronicle->prefix_count < out_max ? chronicle->prefix_count : out_max;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = chronicle->prefixes[i];
    }
    return count;
}

bool chronicle_find(const struct chronicle *chronicle, struct slice id,
                    struct chronicle_decision *out)
{
    for (uint32_t i = chronicle->decision_count; i-- > 0;) {
        struct receipt_parts parts;
        receipt_parts(chronicle->decisions[i].decision.receipt, &parts);
        if (slice_equal(parts.id, id)) {
            *out = chronicle->decisions[i].decision;
            return true;
        }
    }
    return false;
}

uint32_t chronicle_decisions(const struct chronicle *chronicle, uint64_t since,
                             struct chronicle_decision *out, uint32_t out_max)
{
    uint32_t count = 0;
    for (uint32_t i = chronicle->decision_count; i-- > 0 && count < out_max;) {
        if (chronicle->decisions[i].decision.serial > since) {
            out[count++] = chronicle->decisions[i].decision;
        }
    }
    return count;
}

// Keeps one more, under the next serial.
static inline struct chronicle_decision *
told_add(struct chronicle *chronicle, struct receipt receipt, struct receipt_parts parts)
{
    ASSERT(chronicle->decision_count < told_max);
    struct told_receipt *to = &chronicle->decisions[chronicle->decision_count++];
    receipt.id_size = (uint16_t)parts.id.size;
    receipt.model_size = (uint16_t)parts.model.size;
    receipt.url_size = (uint16_t)parts.url.size;
    receipt.path_size = (uint16_t)parts.path.size;
    receipt_write(&receipt, &parts, to->bytes);
    to->decision = (struct chronicle_decision){.serial = chronicle->decision_count,
                                               .receipt = (const struct receipt *)to->bytes,
                                               .shadow_ttft_ms = NAN};
    return &to->decision;
}

// One of which little more than its name is known.
static inline void told_add_named(struct chronicle *chronicle, const char *id)
{
    told_add(chronicle, (struct receipt){.outcome = RECEIPT_OK, .decision.chosen.cost = NAN},
             (struct receipt_parts){.id = slice_str(id)});
}
