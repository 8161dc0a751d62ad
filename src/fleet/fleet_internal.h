// SPDX-License-Identifier: Apache-2.0
//
// fleet_internal.h -- what the keeper knows of each backend, and the building of a view from it.
#pragma once

#include "fleet/fleet.h"

struct fleet_entry {
    struct backend *backend;
    uint32_t weight;
    bool draining;
    bool models_known;
    bool models_fixed; // by the operator
    struct fleet_model *models;
    uint32_t model_count;
};

struct fleet_pool_models {
    struct fleet_model *models;
    uint32_t count;
};

struct fleet_view_source {
    const struct fleet_entry *entries;
    uint32_t entry_count;
    const struct fleet_pool_models *pools;
    uint32_t pool_count;
    uint64_t generation;
};

// NULL when memory is short.
struct fleet_view *fleet_view_build(const struct fleet_view_source *source);

// Clears the caller's pointer; `*view` may be NULL.
void fleet_view_destroy(struct fleet_view **view);
