// SPDX-License-Identifier: Apache-2.0

#include "cli/members.h"

#include "base/base.h"
#include "fleet/fleet.h"
#include "scribe/scribe.h"

// As many as limits.backends allows.
enum { member_max = 4096 };

static struct chronicle_member member_of(const struct fleet *fleet, const struct backend *backend,
                                         uint64_t now_ms)
{
    struct load_view load;
    load_read(&backend->load, now_ms, &load);
    return (struct chronicle_member){
        .id = backend->id,
        .pool = backend->pool,
        .is_usable =
            !fleet_is_draining(fleet, backend) && backend_tier(backend, now_ms) != BACKEND_DOWN,
        .cache_tokens = load.cache_tokens,
        .token_ms = load.prefill_ms,
    };
}

void members_tell(const struct fleet *fleet, uint64_t now_ms, struct scribe *scribe)
{
    static struct chronicle_member members[member_max]; // too many for the stack
    const struct backend *backend;
    uint32_t count = 0;

    while (count < member_max && (backend = fleet_at(fleet, count)) != NULL) {
        members[count++] = member_of(fleet, backend, now_ms);
    }
    chronicle_set_members(scribe_lock(scribe), members, count);
    scribe_unlock(scribe);
}
