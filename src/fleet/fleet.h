// SPDX-License-Identifier: Apache-2.0
//
// fleet.h -- all backends, and the immutable view of them that workers route by.
//
// One thread (the keeper) changes the fleet: it adds and removes backends, sets their models, and
// publishes a view.  Workers take the view once a turn and never wait:
//
//     keeper   fleet_add, fleet_set_models, … -> fleet_publish ---> view 8
//     workers  fleet_view() each turn               view 7 .... retired, freed by fleet_reclaim
//
// A view says which backends belong to which pool and which of them serve which model.  A backend
// with unknown models serves any.  A model that several pools serve belongs to the pool that names
// it in the configuration, or else to the first.  Requests for an unknown model may go to the only
// model of the first pool (enum fleet_any_name).
//
// Threads: one keeper; any readers, through `reclaim`.  Memory: the keeper allocates; a backend
// that was removed is freed when no view shows it and no request is on it.
#pragma once

#include "base/slice.h"
#include "fleet/backend.h"

struct fleet;
struct reclaim;

// A constant, so that views and plans of different age agree on it.
enum { fleet_pool_count_max = 64 };

// Bytes of view->models_hint with its NUL.
enum { fleet_hint_size_max = 768 };

// Whether the only model of the first pool takes requests for unknown models.
enum fleet_any_name {
    FLEET_ANY_NAME_AUTO, // if the engines of the pool are known to ignore the name
    FLEET_ANY_NAME_ON,
    FLEET_ANY_NAME_OFF,
};

struct fleet_limits {
    uint32_t backend_count_max;
    uint32_t pool_count;
};

struct fleet_spec {
    const char *url;
    const char *host;
    const char *api_key; // NULL: none
    uint16_t port;
    bool tls;
    uint32_t weight;
    uint32_t pool;
    struct address address;
    uint64_t server;           // the id of the server's first rank; 0: this is the first
    uint32_t rank;             // data-parallel
    uint32_t rank_count;       // 0 counts as 1
    const char *events;        // see backend.h
    const char *events_replay; // NULL: none
    const char *events_topic;  // NULL: any
    const char *const *models; // configured ones
    uint32_t model_count;      // 0: to be learned
};

// A model as a backend describes it.
struct fleet_model {
    const char *name;
    const char *document; // its JSON object
    bool is_adapter;      // of another model
    bool ignores_name;    // the backend says so: it serves this model whatever a request names
};

struct fleet_member {
    struct backend *backend;
    uint32_t slot; // the backend's; a copy, so that a walk does not touch the backends
    uint32_t weight;
    bool draining;
};

// Some members of one pool: indices [first, first + count) of view->lists.
struct fleet_group {
    uint32_t pool;
    uint32_t first;
    uint32_t count;
};

struct fleet_view_model {
    const char *name; // NULL: an empty place in the table
    const char *document;
    bool is_adapter; // some backend says so
    uint64_t hash;
    struct fleet_group group;
};

struct fleet_view {
    uint64_t generation;
    struct fleet_member *members;
    uint32_t member_count;
    uint32_t *lists;
    struct fleet_group *pools; // all members of each
    uint32_t pool_count;
    struct fleet_group any_model;    // members that may serve an unknown model; may be empty
    struct fleet_view_model *models; // open addressing
    uint32_t model_mask;
    const struct fleet_view_model *only_model; // takes requests for unknown models; NULL: none does
    char *models_document;                     // the response to GET /v1/models
    char *models_hint; // for people who named an unknown model: some names, and an option
    bool has_healthy;  // some member is not known to be down
    char *strings;     // holds the names and documents
};

// NULL when memory is short.  Keeps `reclaim`.
struct fleet *fleet_create(const struct fleet_limits *limits, struct reclaim *reclaim);

// Readers must have left.  Clears the caller's pointer; `*fleet` may be NULL.
void fleet_destroy(struct fleet **fleet);

// Keeper.  NULL when all slots are taken.  Takes effect with fleet_publish, as all changes do.
struct backend *fleet_add(struct fleet *fleet, const struct fleet_spec *spec);
void fleet_remove(struct fleet *fleet, struct backend *backend);
void fleet_set_weight(struct fleet *fleet, struct backend *backend, uint32_t weight);
void fleet_set_draining(struct fleet *fleet, struct backend *backend, bool draining);

// The models that belong to a pool by configuration, whatever backends report.
void fleet_set_pool_models(struct fleet *fleet, uint32_t pool, const char *const *names,
                           uint32_t count);

// The models that the backend reports; none: its models are unknown.  If its models are configured,
// only which of them are adapters is taken over.
void fleet_set_models(struct fleet *fleet, struct backend *backend,
                      const struct fleet_model *models, uint32_t model_count);

void fleet_set_any_name(struct fleet *fleet, enum fleet_any_name any_name);

// Health changed, which the list of models shows.
void fleet_touch(struct fleet *fleet);

// Keeper.  Publishes a new view if anything changed; false when memory is short and the old one
// stays in force.
bool fleet_publish(struct fleet *fleet);

// Keeper.  Frees views and backends that no reader can hold any more.
void fleet_reclaim(struct fleet *fleet);

// Keeper.  For listings: by position, NULL past the last.
struct backend *fleet_at(const struct fleet *fleet, uint32_t position);
struct backend *fleet_find(const struct fleet *fleet, uint64_t id);
// The same with weight and draining, for walks over all: the calls below search the list.
const struct fleet_member *fleet_member_at(const struct fleet *fleet, uint32_t position);
const struct fleet_member *fleet_member(const struct fleet *fleet, const struct backend *backend);
const char *fleet_model_name(const struct fleet *fleet, const struct backend *backend,
                             uint32_t position);

// Reader.  Valid until it announces a later epoch (reclaim.h).
const struct fleet_view *fleet_view(const struct fleet *fleet);

// The members that may serve `model`; NULL: no member of the fleet does.  A fleet without members
// may get one that does: then the group is empty.
const struct fleet_group *fleet_view_find(const struct fleet_view *view, struct slice model);

// The name of the model that requests for `model` get: its own, or that of the only model.
struct slice fleet_view_served(const struct fleet_view *view, struct slice model);

// NULL: an unknown model.
const struct fleet_view_model *fleet_view_model(const struct fleet_view *view, struct slice model);

// Any thread.  The backend refused a connection: its process is gone, and the caches of all its
// ranks.
void fleet_view_lose(const struct fleet_view *view, struct backend *backend);
