// SPDX-License-Identifier: Apache-2.0

#include "keeper/members.h"

#include "fleet/fleet.h"

uint32_t members_of(const struct fleet *fleet, uint64_t now_ms, struct chronicle_member *out,
                    uint32_t out_max)
{
    const struct backend *backend;
    uint32_t count = 0;

    while (count < out_max && (backend = fleet_at(fleet, count)) != NULL) {
        struct load_view load;
        load_read(&backend->load, now_ms, &load);
        out[count++] = (struct chronicle_member){
            .id = backend->id,
            .slot = backend->slot,
            .pool = backend->pool,
            .is_usable = !fleet_member(fleet, backend)->draining &&
                         backend_tier(backend, now_ms) != BACKEND_DOWN,
            .cache_tokens = load.cache_tokens,
            .token_ms = load.prefill_ms,
        };
    }
    return count;
}
