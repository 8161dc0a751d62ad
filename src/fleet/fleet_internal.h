// SPDX-License-Identifier: Apache-2.0
//
// fleet_internal.h -- the fleet as its keeper knows it, and the building of a view from it.
#pragma once

#include "fleet/fleet.h"

struct fleet_entry {
    struct fleet_member member;
    bool models_fixed; // by the operator
    struct fleet_model *models;
    uint32_t model_count; // 0: its models are unknown
};

struct fleet_pool_models {
    struct fleet_model *models;
    uint32_t count;
};

struct retired;

struct fleet {
    struct fleet_limits limits;
    struct reclaim *reclaim;
    struct fleet_entry *entries; // in the order in which they were added
    uint32_t entry_count;
    struct backend **slots; // NULL: free
    struct fleet_pool_models *pools;
    struct retired *retired;
    uint64_t next_id;
    uint64_t generation;
    enum fleet_any_name any_name;
    bool changed;

    // Written by the keeper, read by workers.
    struct {
        _Alignas(64) _Atomic(struct fleet_view *) view;
    } shared;
};

// The next generation.  NULL when memory is short.
struct fleet_view *fleet_view_build(const struct fleet *fleet);

// Clears the caller's pointer; `*view` may be NULL.
void fleet_view_destroy(struct fleet_view **view);
