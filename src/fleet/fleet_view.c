// SPDX-License-Identifier: Apache-2.0
//
// A view is built in linear passes over all names: members and pools; each distinct model; how many
// members serve each model, then which; the document that lists them, and the hint that names some.
// The keeper builds it when something changed; the admin API waits meanwhile.

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/utf8.h"
#include "fleet/fleet_internal.h"

#include <stdio.h>
#include <stdlib.h>

static const char list_open[] = "{\"object\":\"list\",\"data\":[";
static const char list_close[] = "]}";

enum {
    // Distinct models; later ones are ignored.
    model_count_max = 65536,
    // Members with unknown models are listed under every model of their pool: entries in all.
    wildcard_list_size_max = 1 << 22,
    // Of the hint.
    hint_names_max = 8,
    hint_name_size_max = 64,
};

static const uint32_t nowhere = UINT32_MAX;
static const uint32_t first_pool = 0; // of the configuration

static uint64_t hash_name(struct slice name)
{
    return hash_bytes(name, 0);
}

static bool is_healthy(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.probe, memory_order_relaxed) != BACKEND_PROBE_DOWN;
}

struct sizes {
    uint32_t names;      // of models, repeated ones included
    size_t strings_size; // bytes of names and documents
};

static struct sizes view_measure(const struct fleet *fleet)
{
    struct sizes sizes = {0};

    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        const struct fleet_entry *entry = &fleet->entries[i];
        for (uint32_t m = 0; m < entry->model_count; m++) {
            sizes.names++;
            sizes.strings_size += strlen(entry->models[m].name) + 1;
            sizes.strings_size += strlen(entry->models[m].document) + 1;
        }
    }
    for (uint32_t p = 0; p < fleet->limits.pool_count; p++) {
        for (uint32_t m = 0; m < fleet->pools[p].count; m++) {
            sizes.names++;
            sizes.strings_size += strlen(fleet->pools[p].models[m].name) + 1;
            sizes.strings_size += strlen(fleet->pools[p].models[m].document) + 1;
        }
    }
    return sizes;
}

struct view_build {
    const struct fleet *fleet;
    struct fleet_view *view;
    char *strings;        // where the next one goes
    uint32_t models_left; // that may still be added
    uint32_t list_at;
    uint32_t *places; // for each name of each entry, in their order: where its model is, or nowhere
    uint32_t *marks;  // for each place: the last entry that was there, plus one
};

static uint32_t models_allowed(const struct fleet *fleet)
{
    uint32_t wildcards = 0;
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        wildcards += fleet->entries[i].model_count == 0;
    }
    uint32_t allowed = wildcard_list_size_max / (wildcards + 1);
    return allowed < model_count_max ? allowed : model_count_max;
}

static bool build_start(struct view_build *build, struct sizes sizes)
{
    const struct fleet *fleet = build->fleet;
    uint32_t table_size = 16;

    build->models_left = models_allowed(fleet);
    build->models_left = sizes.names < build->models_left ? sizes.names : build->models_left;
    while (table_size < build->models_left * 2) {
        table_size *= 2;
    }
    build->places = malloc((sizes.names + 1) * sizeof(*build->places));
    build->marks = calloc(table_size, sizeof(*build->marks));
    struct fleet_view *view = build->view = calloc(1, sizeof(*view));
    if (view == NULL) {
        return false;
    }
    view->members = calloc(fleet->entry_count + 1, sizeof(*view->members));
    view->pools = calloc(fleet->limits.pool_count, sizeof(*view->pools));
    view->models = calloc(table_size, sizeof(*view->models));
    view->strings = build->strings = malloc(sizes.strings_size + 1);
    view->models_document =
        malloc(sizes.strings_size + sizes.names + sizeof(list_open) + sizeof(list_close));
    view->models_hint = malloc(fleet_hint_size_max);
    view->pool_count = fleet->limits.pool_count;
    view->model_mask = table_size - 1;
    view->generation = fleet->generation + 1;
    return build->places != NULL && build->marks != NULL && view->members != NULL &&
           view->pools != NULL && view->models != NULL && view->strings != NULL &&
           view->models_document != NULL && view->models_hint != NULL;
}

static void add_members(struct view_build *build)
{
    const struct fleet *fleet = build->fleet;
    struct fleet_view *view = build->view;

    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        const struct fleet_entry *entry = &fleet->entries[i];
        view->members[view->member_count++] = entry->member;
        view->has_healthy |= is_healthy(entry->member.backend);
    }
}

static struct fleet_view_model *view_model_place(const struct fleet_view *view, struct slice name)
{
    uint64_t hash = hash_name(name);
    uint32_t at = (uint32_t)hash & view->model_mask;

    // The table is at most half full, so this ends.
    while (view->models[at].name != NULL &&
           (view->models[at].hash != hash || !slice_is(name, view->models[at].name))) {
        at = (at + 1) & view->model_mask;
    }
    return &view->models[at];
}

static const char *view_keep_string(struct view_build *build, const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = build->strings;
    memcpy(kept, text, size);
    build->strings += size;
    return kept;
}

// NULL when there are too many.
static struct fleet_view_model *view_add_model(struct view_build *build, const char *name)
{
    struct fleet_view_model *model = view_model_place(build->view, slice_str(name));
    if (model->name != NULL) {
        return model;
    }
    if (build->models_left == 0) {
        return NULL;
    }
    build->models_left--;
    *model = (struct fleet_view_model){
        .name = view_keep_string(build, name),
        .hash = hash_name(slice_str(name)),
        .group = {.pool = UINT32_MAX},
    };
    return model;
}

static bool pool_is_healthy(const struct fleet *fleet, uint32_t pool)
{
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        if (fleet->entries[i].member.backend->pool == pool &&
            is_healthy(fleet->entries[i].member.backend)) {
            return true;
        }
    }
    return false;
}

// Returns the place of the model, or nowhere.
static uint32_t view_describe_model(struct view_build *build, const char *name, uint32_t pool,
                                    const char *document)
{
    struct fleet_view_model *model = view_add_model(build, name);
    if (model == NULL) {
        return nowhere;
    }
    model->group.pool = model->group.pool == UINT32_MAX ? pool : model->group.pool;
    if (model->document == NULL && document != NULL) {
        model->document = view_keep_string(build, document);
    }
    return (uint32_t)(model - build->view->models);
}

// Adds the models that backends report.  Configured models stay in their pool; others go to the
// first pool that serves them.
static void add_learned(struct view_build *build, uint32_t pool)
{
    const struct fleet *fleet = build->fleet;
    uint32_t *places = build->places;

    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        const struct fleet_entry *entry = &fleet->entries[i];
        bool healthy = is_healthy(entry->member.backend);
        for (uint32_t m = 0; entry->member.backend->pool == pool && m < entry->model_count; m++) {
            places[m] = view_describe_model(build, entry->models[m].name, pool,
                                            healthy ? entry->models[m].document : NULL);
            if (places[m] != nowhere) {
                build->view->models[places[m]].is_adapter |= entry->models[m].is_adapter;
            }
        }
        places += entry->model_count;
    }
}

static void add_models(struct view_build *build)
{
    const struct fleet *fleet = build->fleet;

    for (uint32_t p = 0; p < fleet->limits.pool_count; p++) {
        for (uint32_t m = 0; m < fleet->pools[p].count; m++) {
            view_describe_model(build, fleet->pools[p].models[m].name, p, NULL);
        }
    }
    for (uint32_t p = 0; p < fleet->limits.pool_count; p++) {
        add_learned(build, p);
    }
    // Our own documents for configured models that no backend describes.
    for (uint32_t p = 0; p < fleet->limits.pool_count; p++) {
        bool healthy = pool_is_healthy(fleet, p);
        for (uint32_t m = 0; healthy && m < fleet->pools[p].count; m++) {
            const struct fleet_model *named = &fleet->pools[p].models[m];
            view_describe_model(build, named->name, p, named->document);
        }
    }
}

typedef void visit_fn(struct view_build *build, struct fleet_group *group, uint32_t member);

static void visit_all_of_pool(struct view_build *build, uint32_t member, visit_fn *visit)
{
    uint32_t pool = build->fleet->entries[member].member.backend->pool;
    for (uint32_t at = 0; at <= build->view->model_mask; at++) {
        struct fleet_view_model *model = &build->view->models[at];
        if (model->name != NULL && model->group.pool == pool) {
            visit(build, &model->group, member);
        }
    }
}

// Calls `visit` once for each model and each member that serves it: the members in their order.
static void visit_servers(struct view_build *build, visit_fn *visit)
{
    const struct fleet *fleet = build->fleet;
    const uint32_t *places = build->places;

    memset(build->marks, 0, (build->view->model_mask + 1) * sizeof(*build->marks));
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        const struct fleet_entry *entry = &fleet->entries[i];
        if (entry->model_count == 0) {
            visit_all_of_pool(build, i, visit);
        }
        for (uint32_t m = 0; m < entry->model_count; m++) {
            if (places[m] == nowhere || build->marks[places[m]] == i + 1) {
                continue; // ignored, or named twice
            }
            build->marks[places[m]] = i + 1;
            struct fleet_group *group = &build->view->models[places[m]].group;
            if (group->pool == entry->member.backend->pool) {
                visit(build, group, i);
            }
        }
        places += entry->model_count;
    }
}

static void count_server(struct view_build *build, struct fleet_group *group, uint32_t member)
{
    (void)member;
    group->count++;
    build->list_at++;
}

static void add_server(struct view_build *build, struct fleet_group *group, uint32_t member)
{
    build->view->lists[group->first + group->count++] = member;
}

static void add_pools(struct view_build *build)
{
    struct fleet_view *view = build->view;

    for (uint32_t p = 0; p < view->pool_count; p++) {
        view->pools[p] = (struct fleet_group){.pool = p, .first = build->list_at};
        for (uint32_t i = 0; i < view->member_count; i++) {
            if (view->members[i].backend->pool == p) {
                view->lists[build->list_at++] = i;
            }
        }
        view->pools[p].count = build->list_at - view->pools[p].first;
    }
}

// The members with unknown models of the first pool that has any.
static void add_any(struct view_build *build)
{
    const struct fleet *fleet = build->fleet;
    struct fleet_view *view = build->view;

    view->any_model.first = build->list_at;
    for (uint32_t p = 0; p < fleet->limits.pool_count && view->any_model.count == 0; p++) {
        view->any_model.pool = p;
        for (uint32_t i = 0; i < fleet->entry_count; i++) {
            if (fleet->entries[i].member.backend->pool == p && fleet->entries[i].model_count == 0) {
                view->lists[build->list_at++] = i;
                view->any_model.count++;
            }
        }
    }
}

// Counts first, so that each group's place is known when its members come.
static bool add_groups(struct view_build *build)
{
    struct fleet_view *view = build->view;

    visit_servers(build, count_server);
    // Each member is in one pool, and perhaps among those that serve any.
    size_t list_size = (size_t)build->list_at + 2 * (size_t)view->member_count + 1;
    view->lists = malloc(list_size * sizeof(*view->lists));
    if (view->lists == NULL) {
        return false;
    }
    build->list_at = 0;
    add_pools(build);
    for (uint32_t at = 0; at <= view->model_mask; at++) {
        struct fleet_group *group = &view->models[at].group;
        group->first = build->list_at;
        build->list_at += group->count;
        group->count = 0;
    }
    visit_servers(build, add_server);
    for (uint32_t at = 0; at <= view->model_mask; at++) {
        struct fleet_view_model *model = &view->models[at];
        if (model->name != NULL && model->group.count == 0) {
            model->group = view->pools[model->group.pool]; // configured, and reported by none
        }
    }
    add_any(build);
    return true;
}

// Whether each engine of the first pool is known to ignore the name.  One that is down and was
// never asked does not count: until it came up, the others would refuse what they can serve.
static bool first_pool_ignores_names(const struct fleet *fleet)
{
    bool has_any = false;

    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        const struct fleet_entry *entry = &fleet->entries[i];
        bool is_absent = entry->model_count == 0 && !is_healthy(entry->member.backend);
        if (entry->member.backend->pool != first_pool || is_absent) {
            continue;
        }
        if (entry->model_count != 1 || !entry->models[0].ignores_name) {
            return false;
        }
        has_any = true;
    }
    return has_any;
}

// The only model of the first pool; NULL: it has several, or none.  Adapters do not count.
static const struct fleet_view_model *view_single_model(const struct fleet_view *view)
{
    const struct fleet_view_model *single = NULL;

    for (uint32_t at = 0; at <= view->model_mask; at++) {
        const struct fleet_view_model *model = &view->models[at];
        if (model->name == NULL || model->is_adapter || model->group.pool != first_pool) {
            continue;
        }
        if (single != NULL) {
            return NULL;
        }
        single = model;
    }
    return single;
}

static void add_only_model(struct view_build *build)
{
    struct fleet_view *view = build->view;
    enum fleet_any_name any_name = build->fleet->any_name;
    bool is_on = any_name == FLEET_ANY_NAME_ON ||
                 (any_name == FLEET_ANY_NAME_AUTO && first_pool_ignores_names(build->fleet));

    // A backend of another pool that has yet to say what it serves may serve that very name.
    if (is_on && (view->any_model.count == 0 || view->any_model.pool == first_pool)) {
        view->only_model = view_single_model(view);
    }
}

typedef void list_fn(const struct fleet_view_model *model, uint32_t position, struct text *out);

// Calls `list` once for each model, in the order of the backends, so that the order does not change
// with every hash.  Returns how many there are.
static uint32_t view_list_models(struct view_build *build, list_fn *list, struct text *out)
{
    const struct fleet *fleet = build->fleet;
    const struct fleet_view *view = build->view;
    const uint32_t *places = build->places;
    uint32_t count = 0;

    memset(build->marks, 0, (view->model_mask + 1) * sizeof(*build->marks));
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        for (uint32_t m = 0; m < fleet->entries[i].model_count; m++, places++) {
            if (*places != nowhere && build->marks[*places] == 0) {
                build->marks[*places] = 1;
                list(&view->models[*places], count++, out);
            }
        }
    }
    for (uint32_t p = 0; p < fleet->limits.pool_count; p++) {
        for (uint32_t m = 0; m < fleet->pools[p].count; m++) {
            const struct fleet_view_model *model =
                view_model_place(view, slice_str(fleet->pools[p].models[m].name));
            uint32_t *mark = &build->marks[model - view->models];
            if (model->name != NULL && *mark == 0) {
                *mark = 1;
                list(model, count++, out);
            }
        }
    }
    return count;
}

static void list_document(const struct fleet_view_model *model, uint32_t position, struct text *out)
{
    (void)position; // models without a document count too
    if (model->document != NULL) {
        text_add_str(out, out->size > sizeof(list_open) - 1 ? "," : "");
        text_add_str(out, model->document);
    }
}

static void write_document(struct view_build *build, size_t capacity)
{
    struct text out = text_over(build->view->models_document, capacity);

    text_add_str(&out, list_open);
    view_list_models(build, list_document, &out);
    text_add_str(&out, list_close);
    ASSERT(!out.overflow);
    build->view->models_document[out.size] = '\0';
}

static void hint_add_name(const struct fleet_view_model *model, struct text *out)
{
    struct slice name = slice_str(model->name);
    struct slice start = utf8_cut(name, hint_name_size_max);
    text_add(out, start);
    text_add_str(out, start.size < name.size ? "..." : "");
}

static void list_name(const struct fleet_view_model *model, uint32_t position, struct text *out)
{
    if (position < hint_names_max) {
        text_add_str(out, position > 0 ? ", " : "");
        hint_add_name(model, out);
    }
}

static void hint_add_option(const struct fleet_view *view, struct text *out)
{
    const struct fleet_view_model *single = view_single_model(view);

    if (single == NULL) {
        text_add_str(out, " (names that engines accept but do not list go into pools.models)");
        return;
    }
    text_add_str(out, " (with models.any_name: on, ");
    hint_add_name(single, out);
    text_add_str(out, " takes any name)");
}

// "the models are a, b and 3 more (an option)".
static void write_hint(struct view_build *build)
{
    char space[fleet_hint_size_max];
    struct text names = text_over(space, sizeof(space));
    struct text out = text_over(build->view->models_hint, fleet_hint_size_max - 1);
    uint32_t count = view_list_models(build, list_name, &names);

    text_add_str(&out, count == 1 ? "the only model is " : "the models are ");
    text_add(&out, text_slice(&names));
    if (count > hint_names_max) {
        text_add_format(&out, " and %u more", count - hint_names_max);
    }
    hint_add_option(build->view, &out);
    ASSERT(!names.overflow && !out.overflow);
    build->view->models_hint[out.size] = '\0';
}

struct fleet_view *fleet_view_build(const struct fleet *fleet)
{
    struct sizes sizes = view_measure(fleet);
    struct view_build build = {.fleet = fleet};
    bool built = build_start(&build, sizes);

    if (built) {
        memset(build.places, 0xff, sizes.names * sizeof(*build.places)); // nowhere
        add_members(&build);
        add_models(&build);
        built = add_groups(&build);
    }
    if (built) {
        add_only_model(&build);
        write_document(&build, sizes.strings_size + sizes.names + sizeof(list_open) + 1);
        write_hint(&build);
    } else {
        fleet_view_destroy(&build.view);
    }
    free(build.places);
    free(build.marks);
    return build.view;
}

void fleet_view_destroy(struct fleet_view **view_ptr)
{
    struct fleet_view *view = *view_ptr;
    *view_ptr = NULL;

    if (view == NULL) {
        return;
    }
    free(view->members);
    free(view->pools);
    free(view->models);
    free(view->lists);
    free(view->strings);
    free(view->models_document);
    free(view->models_hint);
    free(view);
}

const struct fleet_view_model *fleet_view_model(const struct fleet_view *view, struct slice model)
{
    const struct fleet_view_model *found = view_model_place(view, model);
    return found->name == NULL ? NULL : found;
}

const struct fleet_group *fleet_view_find(const struct fleet_view *view, struct slice model)
{
    const struct fleet_view_model *found = fleet_view_model(view, model);
    found = found == NULL ? view->only_model : found;
    if (found != NULL) {
        return &found->group;
    }
    if (view->any_model.count > 0) {
        return &view->any_model;
    }
    return view->member_count == 0 ? &view->pools[first_pool] : NULL;
}

struct slice fleet_view_served(const struct fleet_view *view, struct slice model)
{
    bool is_named =
        model.size == 0 || view->only_model == NULL || fleet_view_model(view, model) != NULL;
    return is_named ? model : slice_str(view->only_model->name);
}

void fleet_view_lose(const struct fleet_view *view, struct backend *backend)
{
    backend_lost(backend);
    for (uint32_t i = 0; backend->rank_count > 1 && i < view->member_count; i++) {
        struct backend *member = view->members[i].backend;
        if (member != backend && member->server == backend->server) {
            backend_lost(member);
        }
    }
}
