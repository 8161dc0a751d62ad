// SPDX-License-Identifier: Apache-2.0

#include "policy/policy_memory.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct policy_memory {
    const struct policy *policy;
    // Written by any thread.
    struct {
        _Alignas(64) atomic_uint owner_count;
        _Alignas(64) atomic_bool is_locked;
    } shared;
    // Under the lock; changed by the policy.
    _Alignas(64) uint8_t state[];
};

// A thread waits only while another one decides, which takes microseconds unless the kernel
// interrupts it.  It looks with loads, which leave the cache line where it is.
static void memory_lock(struct policy_memory *memory)
{
    while (atomic_exchange_explicit(&memory->shared.is_locked, true, memory_order_acquire)) {
        while (atomic_load_explicit(&memory->shared.is_locked, memory_order_relaxed)) {
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        }
    }
}

static void memory_unlock(struct policy_memory *memory)
{
    atomic_store_explicit(&memory->shared.is_locked, false, memory_order_release);
}

struct policy_memory *policy_memory_create(const struct policy *policy)
{
    ASSERT(policy->state_size > 0);
    size_t size = (sizeof(struct policy_memory) + policy->state_size + 63) / 64 * 64;
    struct policy_memory *memory = aligned_alloc(64, size);
    if (memory == NULL) {
        return NULL;
    }
    memset(memory, 0, size);
    memory->policy = policy;
    atomic_init(&memory->shared.owner_count, 1);
    return memory;
}

struct policy_memory *policy_memory_share(struct policy_memory *memory)
{
    atomic_fetch_add_explicit(&memory->shared.owner_count, 1, memory_order_relaxed);
    return memory;
}

struct policy_memory *policy_memory_copy(struct policy_memory *memory)
{
    struct policy_memory *copy = policy_memory_create(memory->policy);
    if (copy != NULL) {
        memory_lock(memory);
        memcpy(copy->state, memory->state, memory->policy->state_size);
        memory_unlock(memory);
    }
    return copy;
}

void policy_memory_release(struct policy_memory **memory_ptr)
{
    struct policy_memory *memory = *memory_ptr;
    *memory_ptr = NULL;

    if (memory == NULL) {
        return;
    }
    // The last owner frees it after the writes of all others.
    unsigned owners =
        atomic_fetch_sub_explicit(&memory->shared.owner_count, 1, memory_order_acq_rel);
    ASSERT(owners > 0);
    if (owners == 1) {
        free(memory);
    }
}

const struct policy *policy_memory_policy(const struct policy_memory *memory)
{
    return memory->policy;
}

uint32_t policy_memory_pick(struct policy_memory *memory, const struct policy_input *in,
                            struct rng *rng)
{
    memory_lock(memory);
    uint32_t choice = policy_pick(memory->policy, memory->state, in, rng);
    memory_unlock(memory);
    return choice;
}
