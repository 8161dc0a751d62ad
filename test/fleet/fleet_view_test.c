// SPDX-License-Identifier: Apache-2.0

#include "base/reclaim.h"
#include "base/rng.h"
#include "fleet/fleet.h"
#include "test.h"

static struct reclaim reclaim;
static struct fleet *fleet;
static struct backend *backends[3];

// Three backends: a and b in pool 0, c in pool 1.
static void set_up(void)
{
    static const char *const urls[] = {"http://a", "http://b", "http://c"};
    reclaim_init(&reclaim, 0);
    fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 8, .pool_count = 2}, &reclaim);
    ASSERT(fleet != NULL);
    for (uint32_t i = 0; i < 3; i++) {
        backends[i] = fleet_add(
            fleet, &(struct fleet_spec){.url = urls[i], .host = "h", .weight = 1, .pool = i / 2});
    }
}

static void serve(uint32_t backend, const char *first, const char *second)
{
    struct fleet_model models[] = {{.name = first, .document = first},
                                   {.name = second, .document = second}};
    fleet_set_models(fleet, backends[backend], models, second == NULL ? 1 : 2);
}

// A list as llama-server has it.
static void serve_whatever(uint32_t backend, const char *name)
{
    struct fleet_model model = {.name = name, .document = "{}", .ignores_name = true};
    fleet_set_models(fleet, backends[backend], &model, 1);
}

// The backends that serve `model`, as "ab"; "-" when none does, "" when there are none.
static const char *who(const char *model)
{
    static char names[16];
    ASSERT(fleet_publish(fleet));
    const struct fleet_view *view = fleet_view(fleet);
    const struct fleet_group *group = fleet_view_find(view, slice_str(model));
    if (group == NULL) {
        return "-";
    }
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t member = view->lists[group->first + i];
        names[i] = view->members[member].backend->url[7];
    }
    names[group->count] = '\0';
    return names;
}

TEST(a_backend_of_unknown_models_serves_any)
{
    set_up();
    CHECK_STR(who("m"), "ab");
    serve(0, "m", NULL);
    CHECK_STR(who("m"), "ab");
    CHECK_STR(who("other"), "b");
    serve(1, "n", NULL);
    CHECK_STR(who("m"), "a");
    CHECK_STR(who("n"), "b");
    CHECK_STR(who("other"), "c");
    serve(2, "o", NULL);
    CHECK_STR(who("o"), "c");
    CHECK_STR(who("other"), "-");
    fleet_destroy(&fleet);
}

TEST(a_backend_that_lists_no_models_may_serve_any)
{
    set_up();
    serve(0, "m", NULL);
    serve(1, "n", NULL);
    serve(2, "o", NULL);
    CHECK_STR(who("other"), "-");
    fleet_set_models(fleet, backends[1], NULL, 0);
    CHECK_STR(who("other"), "b");
    CHECK_STR(who("m"), "ab");
    uint64_t generation = fleet_view(fleet)->generation;
    fleet_set_models(fleet, backends[1], NULL, 0);
    CHECK_STR(who("n"), "b");
    CHECK_EQ(fleet_view(fleet)->generation, generation); // it was no news
    serve(1, "n", NULL);
    CHECK_STR(who("other"), "-");
    fleet_destroy(&fleet);
}

TEST(an_empty_fleet_does_not_know_which_models_it_serves)
{
    const char *names[] = {"p"};
    set_up();
    fleet_set_pool_models(fleet, 1, names, 1);
    for (uint32_t i = 0; i < 3; i++) {
        serve(i, "m", NULL);
    }
    fleet_remove(fleet, backends[2]);
    CHECK_STR(who("p"), ""); // its pool is empty
    CHECK_STR(who("other"), "-");
    fleet_remove(fleet, backends[0]);
    CHECK_STR(who("m"), "b");
    fleet_remove(fleet, backends[1]);
    CHECK_STR(who("m"), "");
    CHECK_STR(who("other"), "");
    CHECK_STR(who("p"), "");
    fleet_destroy(&fleet);
}

TEST(any_name_is_accepted_where_every_engine_ignores_it)
{
    set_up();
    serve(2, "o", NULL);
    serve_whatever(0, "m");
    CHECK_STR(who("other"), "b"); // which has yet to say what it serves
    serve_whatever(1, "m");
    CHECK_STR(who("other"), "ab");
    CHECK_STR(who("o"), "c");
    serve(1, "m", NULL);
    CHECK_STR(who("other"), "-");
    serve_whatever(1, "n");
    CHECK_STR(who("other"), "-"); // which of the two?
    serve_whatever(1, "m");
    fleet_set_any_name(fleet, FLEET_ANY_NAME_OFF);
    CHECK_STR(who("other"), "-");
    fleet_set_any_name(fleet, FLEET_ANY_NAME_AUTO);
    CHECK_STR(who("other"), "ab");
    fleet_destroy(&fleet);
}

TEST(a_list_of_several_models_means_that_the_engine_reads_the_name)
{
    struct fleet_model models[] = {
        {.name = "m", .document = "{}", .ignores_name = true},
        {.name = "sql", .document = "{}", .is_adapter = true, .ignores_name = true},
    };
    set_up();
    serve(2, "o", NULL);
    serve_whatever(0, "m");
    fleet_set_models(fleet, backends[1], models, 2);
    CHECK_STR(who("other"), "-");
    fleet_destroy(&fleet);
}

TEST(a_backend_that_is_down_and_was_never_asked_does_not_keep_names_from_the_others)
{
    set_up();
    serve(2, "o", NULL);
    serve_whatever(0, "m");
    backend_set_probe(backends[1], BACKEND_PROBE_DOWN, 0);
    fleet_touch(fleet);
    CHECK_STR(who("other"), "ab");
    serve(1, "n", NULL); // now it was asked
    CHECK_STR(who("other"), "-");
    fleet_destroy(&fleet);
}

TEST(names_that_the_operator_lists_are_the_only_ones_until_any_name_is_on)
{
    static const char *const names[] = {"mine"};
    struct fleet_model model = {.name = "m", .document = "{}", .ignores_name = true};
    set_up();
    for (uint32_t i = 0; i < 2; i++) {
        fleet_remove(fleet, backends[i]);
    }
    serve(2, "o", NULL);
    struct backend *backend = fleet_add(
        fleet, &(struct fleet_spec){
                   .url = "http://d", .host = "h", .weight = 1, .models = names, .model_count = 1});
    fleet_set_models(fleet, backend, &model, 1);
    CHECK_STR(who("other"), "-");
    fleet_set_any_name(fleet, FLEET_ANY_NAME_ON);
    CHECK_STR(who("other"), "d");
    fleet_destroy(&fleet);
}

TEST(any_name_is_that_of_the_only_model_of_the_first_pool)
{
    set_up();
    fleet_set_any_name(fleet, FLEET_ANY_NAME_ON);
    serve(0, "m", NULL);
    serve(2, "o", NULL);
    CHECK_STR(who("other"), "ab"); // b may serve it too
    serve(1, "m", NULL);
    CHECK_STR(who("other"), "ab");
    const struct fleet_view *view = fleet_view(fleet);
    CHECK(slice_is(fleet_view_served(view, slice_str("other")), "m"));
    CHECK(slice_is(fleet_view_served(view, slice_str("m")), "m"));
    CHECK(slice_is(fleet_view_served(view, slice_str("o")), "o"));
    CHECK_EQ(fleet_view_served(view, (struct slice){0}).size, 0);
    // An adapter is reached by its own name alone.
    struct fleet_model models[] = {{.name = "m", .document = "{}"},
                                   {.name = "sql", .document = "{}", .is_adapter = true}};
    fleet_set_models(fleet, backends[1], models, 2);
    CHECK_STR(who("sql"), "b");
    CHECK_STR(who("other"), "ab");
    serve(1, "m", "n");
    CHECK_STR(who("other"), "-");
    CHECK(slice_is(fleet_view_served(fleet_view(fleet), slice_str("other")), "other"));
    fleet_destroy(&fleet);
}

TEST(an_unknown_name_goes_to_another_pool_while_that_may_serve_it)
{
    set_up();
    fleet_set_any_name(fleet, FLEET_ANY_NAME_ON);
    serve(0, "m", NULL);
    serve(1, "m", NULL);
    CHECK_STR(who("other"), "c");
    CHECK(slice_is(fleet_view_served(fleet_view(fleet), slice_str("other")), "other"));
    serve(2, "o", NULL);
    CHECK_STR(who("other"), "ab");
    fleet_destroy(&fleet);
}

static const char *hint(void)
{
    ASSERT(fleet_publish(fleet));
    return fleet_view(fleet)->models_hint;
}

TEST(the_hint_names_the_models_and_the_option)
{
    const char *names[] = {"p"};
    set_up();
    serve(0, "m", NULL);
    serve(1, "m", NULL);
    CHECK_STR(hint(), "the only model is m (with models.any_name: on, m takes any name)");
    serve(2, "o", NULL);
    CHECK_STR(hint(), "the models are m, o (with models.any_name: on, m takes any name)");
    serve(1, "n", "m");
    fleet_set_pool_models(fleet, 1, names, 1);
    CHECK_STR(hint(), "the models are m, n, o, p (names that engines accept but do not list go "
                      "into pools.models)");
    fleet_destroy(&fleet);
}

TEST(the_hint_is_short_however_many_and_long_the_names_are)
{
    enum { count = 1000, size = 600 };
    static char names[count][size];
    static struct fleet_model models[count];
    set_up();
    for (uint32_t i = 0; i < count; i++) {
        // Characters of two bytes, from an odd place on.
        snprintf(names[i], size, "%03u", i);
        for (uint32_t at = 3; at + 2 < size; at += 2) {
            memcpy(&names[i][at], "\xc3\xa9", 3);
        }
        models[i] = (struct fleet_model){.name = names[i], .document = "{}"};
    }
    fleet_set_models(fleet, backends[0], models, count);
    CHECK(strlen(hint()) < fleet_hint_size_max);
    CHECK(strstr(hint(), "the models are 000\xc3\xa9") == hint());
    CHECK(strstr(hint(), "\xc3\xa9..., 001\xc3\xa9") != NULL);
    CHECK(strstr(hint(), "\xc3.") == NULL);
    CHECK(strstr(hint(), "... and 992 more (") != NULL);
    for (uint32_t i = 1; i < count; i++) {
        models[i].is_adapter = true;
    }
    fleet_set_models(fleet, backends[0], NULL, 0);
    fleet_set_models(fleet, backends[0], models, count);
    CHECK(strstr(hint(), "... and 992 more (with models.any_name: on, 000\xc3\xa9") != NULL);
    CHECK(strlen(hint()) < fleet_hint_size_max);
    fleet_destroy(&fleet);
}

TEST(a_model_belongs_to_the_pool_that_names_it_or_to_the_first)
{
    set_up();
    serve(0, "m", NULL);
    serve(1, "n", NULL);
    serve(2, "m", "n");
    CHECK_STR(who("m"), "a");
    const char *names[] = {"m", "p"};
    fleet_set_pool_models(fleet, 1, names, 2);
    CHECK_STR(who("m"), "c");
    CHECK_STR(who("n"), "b");
    CHECK_STR(who("p"), "c"); // only the configuration says so
    fleet_destroy(&fleet);
}

TEST(lists_the_union_over_healthy_backends_in_a_steady_order)
{
    set_up();
    serve(0, "\"m\"", "\"n\"");
    serve(1, "\"n\"", "\"o\"");
    serve(2, "\"p\"", NULL);
    CHECK(fleet_publish(fleet));
    CHECK_STR(fleet_view(fleet)->models_document,
              "{\"object\":\"list\",\"data\":[\"m\",\"n\",\"o\",\"p\"]}");
    backend_set_probe(backends[0], BACKEND_PROBE_DOWN, 0);
    backend_set_probe(backends[2], BACKEND_PROBE_DOWN, 0);
    fleet_touch(fleet);
    CHECK(fleet_publish(fleet));
    CHECK_STR(fleet_view(fleet)->models_document, "{\"object\":\"list\",\"data\":[\"n\",\"o\"]}");
    CHECK(fleet_view(fleet)->has_healthy);
    CHECK(fleet_view_model(fleet_view(fleet), slice_str("\"m\""))->document == NULL);
    CHECK_STR(who("\"m\""), "a"); // down, not forgotten
    fleet_destroy(&fleet);
}

TEST(many_models_do_not_collide)
{
    set_up();
    static char names[500][8];
    static struct fleet_model models[500];
    for (int i = 0; i < 500; i++) {
        snprintf(names[i], sizeof(names[i]), "m%d", i);
        models[i] = (struct fleet_model){.name = names[i], .document = names[i]};
    }
    fleet_set_models(fleet, backends[0], models, 500);
    serve(1, "x", NULL);
    serve(2, "y", NULL);
    for (int i = 0; i < 500; i++) {
        CHECK_STR(who(names[i]), "a");
    }
    CHECK_STR(who("m500"), "-");
    fleet_destroy(&fleet);
}

enum { twin_backends = 7, twin_pools = 3, twin_models = 6, twin_list_max = 4 };

static const char *const twin_names[twin_models + 1] = {"m0", "m1", "m2", "m3", "m4", "m5", "m6"};

struct twin_list {
    uint32_t count;
    uint32_t models[twin_list_max]; // some of them twice
};

// The same fleet, kept plainly and searched from end to end.
struct twin {
    uint32_t pool[twin_backends];
    bool ignores_name[twin_backends];
    enum fleet_any_name any_name;
    struct twin_list serves[twin_backends];
    struct twin_list configured[twin_pools];
};

static bool twin_has(const struct twin_list *list, uint32_t model)
{
    bool has = false;
    for (uint32_t i = 0; i < list->count; i++) {
        has |= list->models[i] == model;
    }
    return has;
}

static uint32_t twin_pool_of(const struct twin *twin, uint32_t model)
{
    for (uint32_t p = 0; p < twin_pools; p++) {
        if (twin_has(&twin->configured[p], model)) {
            return p;
        }
    }
    uint32_t pool = twin_pools;
    for (uint32_t i = 0; i < twin_backends; i++) {
        if (twin_has(&twin->serves[i], model) && twin->pool[i] < pool) {
            pool = twin->pool[i];
        }
    }
    return pool;
}

enum twin_want { TWIN_SERVES, TWIN_WILDCARD, TWIN_ANY };

// Those of `pool` that are wanted, as "ab".
static bool twin_members(const struct twin *twin, uint32_t pool, uint32_t model,
                         enum twin_want want, char *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < twin_backends; i++) {
        bool wanted = want == TWIN_ANY || twin->serves[i].count == 0 ||
                      (want == TWIN_SERVES && twin_has(&twin->serves[i], model));
        if (twin->pool[i] == pool && wanted) {
            out[count++] = (char)('a' + i);
        }
    }
    out[count] = '\0';
    return count > 0;
}

// The model that takes any name; twin_models: none does.
static uint32_t twin_only_model(const struct twin *twin)
{
    bool is_on = twin->any_name == FLEET_ANY_NAME_ON;
    uint32_t only = twin_models;

    if (twin->any_name == FLEET_ANY_NAME_AUTO) {
        uint32_t readers = 0;
        for (uint32_t i = 0; i < twin_backends; i++) {
            bool ignores_name = twin->serves[i].count == 1 && twin->ignores_name[i];
            is_on |= twin->pool[i] == 0 && ignores_name;
            readers += twin->pool[i] == 0 && !ignores_name;
        }
        is_on &= readers == 0;
    }
    for (uint32_t m = 0; is_on && m < twin_models; m++) {
        if (twin_pool_of(twin, m) == 0 && only < twin_models) {
            return twin_models;
        }
        only = twin_pool_of(twin, m) == 0 ? m : only;
    }
    return only;
}

static const char *twin_who(const struct twin *twin, uint32_t model)
{
    static char names[twin_backends + 1];
    uint32_t pool = twin_pool_of(twin, model);
    if (pool < twin_pools) {
        if (!twin_members(twin, pool, model, TWIN_SERVES, names)) {
            (void)twin_members(twin, pool, model, TWIN_ANY, names);
        }
        return names;
    }
    for (pool = 0; pool < twin_pools; pool++) {
        if (twin_members(twin, pool, model, TWIN_WILDCARD, names)) {
            break;
        }
    }
    uint32_t only = pool == 0 || pool == twin_pools ? twin_only_model(twin) : twin_models;
    if (only < twin_models) {
        return twin_who(twin, only);
    }
    return pool < twin_pools ? names : "-";
}

static struct twin_list twin_draw(struct rng *rng, const char *names[twin_list_max])
{
    struct twin_list list = {.count = rng_below(rng, twin_list_max + 1)};
    for (uint32_t i = 0; i < list.count; i++) {
        list.models[i] = rng_below(rng, twin_models);
        names[i] = twin_names[list.models[i]];
    }
    return list;
}

static void twin_start(struct twin *twin, struct rng *rng)
{
    const char *names[twin_list_max];

    *twin = (struct twin){.any_name = (enum fleet_any_name)rng_below(rng, 3)};
    fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = twin_backends, .pool_count = twin_pools},
        &reclaim);
    ASSERT(fleet != NULL);
    fleet_set_any_name(fleet, twin->any_name);
    for (uint32_t p = 0; p < twin_pools; p++) {
        if (rng_below(rng, 3) == 0) {
            twin->configured[p] = twin_draw(rng, names);
            fleet_set_pool_models(fleet, p, names, twin->configured[p].count);
        }
    }
    for (uint32_t i = 0; i < twin_backends; i++) {
        char url[] = "http://a";
        url[7] = (char)('a' + i);
        twin->pool[i] = rng_below(rng, twin_pools);
        struct backend *backend = fleet_add(
            fleet,
            &(struct fleet_spec){.url = url, .host = "h", .weight = 1, .pool = twin->pool[i]});
        twin->ignores_name[i] = rng_below(rng, 4) != 0;
        if (rng_below(rng, 4) != 0) {
            struct fleet_model models[twin_list_max];
            twin->serves[i] = twin_draw(rng, names);
            for (uint32_t m = 0; m < twin->serves[i].count; m++) {
                models[m] = (struct fleet_model){
                    .name = names[m], .document = names[m], .ignores_name = twin->ignores_name[i]};
            }
            fleet_set_models(fleet, backend, models, twin->serves[i].count);
        }
    }
}

static void check_twin(const struct twin *twin)
{
    for (uint32_t m = 0; m <= twin_models; m++) {
        CHECK_STR(who(twin_names[m]), twin_who(twin, m));
    }
}

TEST(groups_are_those_that_a_plain_search_finds)
{
    struct rng rng = {.state = 11};
    struct twin twin;
    reclaim_init(&reclaim, 0);
    for (int round = 0; round < 3000; round++) {
        twin_start(&twin, &rng);
        check_twin(&twin);
        fleet_destroy(&fleet);
    }
}

enum { part = 4096 };

// Models of the numbers from `first` on, until the next call.
static const struct fleet_model *part_of_models(uint32_t first)
{
    static char names[part][16];
    static struct fleet_model models[part];
    for (uint32_t i = 0; i < part; i++) {
        snprintf(names[i], sizeof(names[i]), "model-%u", first + i);
        models[i] = (struct fleet_model){.name = names[i], .document = names[i]};
    }
    return models;
}

// Each model times each backend times each of its models would be 70 billion steps.
TEST(a_view_of_many_backends_and_models_is_built_quickly)
{
    enum { backend_count = 64 };
    const struct fleet_model *models = part_of_models(0);
    reclaim_init(&reclaim, 0);
    fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = backend_count + 1, .pool_count = 1}, &reclaim);
    ASSERT(fleet != NULL);
    for (uint32_t i = 0; i <= backend_count; i++) {
        struct backend *backend =
            fleet_add(fleet, &(struct fleet_spec){.url = "http://a", .host = "h", .weight = 1});
        if (i < backend_count) { // the last one serves any
            fleet_set_models(fleet, backend, models, part);
        }
    }
    CHECK(fleet_publish(fleet));
    const struct fleet_view *view = fleet_view(fleet);
    for (uint32_t i = 0; i < part; i++) {
        const struct fleet_view_model *model = fleet_view_model(view, slice_str(models[i].name));
        CHECK(model != NULL);
        CHECK_EQ(model->group.count, backend_count + 1);
        CHECK_EQ(view->lists[model->group.first + i % backend_count], i % backend_count);
    }
    fleet_destroy(&fleet);
}

TEST(names_beyond_the_limit_are_ignored_and_those_before_stay)
{
    enum { model_count_max = 65536, backend_count = model_count_max / part + 1 };
    reclaim_init(&reclaim, 0);
    fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = backend_count, .pool_count = 1}, &reclaim);
    ASSERT(fleet != NULL);
    for (uint32_t i = 0; i < backend_count; i++) {
        struct backend *backend =
            fleet_add(fleet, &(struct fleet_spec){.url = "http://a", .host = "h", .weight = 1});
        fleet_set_models(fleet, backend, part_of_models(i * part), part);
    }
    CHECK(fleet_publish(fleet));
    const struct fleet_view *view = fleet_view(fleet);
    CHECK(fleet_view_find(view, slice_str("model-0")) != NULL);
    CHECK_EQ(fleet_view_find(view, slice_str("model-65535"))->count, 1);
    CHECK(fleet_view_find(view, slice_str("model-65536")) == NULL);
    CHECK(strstr(view->models_document, ",model-65535]}") != NULL);
    fleet_destroy(&fleet);
}

TEST(a_process_that_is_gone_takes_all_of_its_ranks_with_it)
{
    set_up();
    struct backend *ranks[2];
    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] =
            fleet_add(fleet, &(struct fleet_spec){.url = i == 0 ? "http://r#0" : "http://r#1",
                                                  .host = "h",
                                                  .weight = 1,
                                                  .server = i > 0 ? ranks[0]->id : 0,
                                                  .rank = i,
                                                  .rank_count = 2});
    }
    ASSERT(fleet_publish(fleet));
    fleet_view_lose(fleet_view(fleet), ranks[1]);
    CHECK_EQ(atomic_load(&ranks[0]->shared.lives), 1);
    CHECK_EQ(atomic_load(&ranks[1]->shared.lives), 1);
    fleet_view_lose(fleet_view(fleet), backends[0]);
    CHECK_EQ(atomic_load(&backends[0]->shared.lives), 1);
    CHECK_EQ(atomic_load(&backends[1]->shared.lives), 0);
    CHECK_EQ(atomic_load(&ranks[0]->shared.lives), 1);
    fleet_destroy(&fleet);
}

static bool is_adapter(const char *model)
{
    ASSERT(fleet_publish(fleet));
    const struct fleet_view_model *found = fleet_view_model(fleet_view(fleet), slice_str(model));
    ASSERT(found != NULL);
    return found->is_adapter;
}

static const struct fleet_model base_and_sql[] = {
    {.name = "base", .document = "{}"}, {.name = "sql", .document = "{}", .is_adapter = true}};

TEST(a_model_is_an_adapter_when_a_backend_says_so)
{
    set_up();
    serve(0, "base", "sql");
    CHECK(!is_adapter("sql"));
    fleet_set_models(fleet, backends[1], base_and_sql, 2);
    CHECK(is_adapter("sql"));
    CHECK(!is_adapter("base"));
    serve(1, "base", NULL); // and not when no backend says so any more
    CHECK(!is_adapter("sql"));
    fleet_destroy(&fleet);
}

TEST(the_backend_says_which_configured_models_are_adapters)
{
    static const char *const names[] = {"base", "sql"};
    set_up();
    struct backend *backend = fleet_add(
        fleet, &(struct fleet_spec){
                   .url = "http://d", .host = "h", .weight = 1, .models = names, .model_count = 2});
    CHECK(!is_adapter("sql"));
    fleet_set_models(fleet, backend, base_and_sql, 2);
    CHECK(is_adapter("sql"));
    CHECK(!is_adapter("base"));
    uint64_t generation = fleet_view(fleet)->generation;
    fleet_set_models(fleet, backend, base_and_sql, 2);
    CHECK(is_adapter("sql"));
    CHECK_EQ(fleet_view(fleet)->generation, generation); // it was no news
    CHECK_STR(who("sql"), "abd");
    fleet_destroy(&fleet);
}
