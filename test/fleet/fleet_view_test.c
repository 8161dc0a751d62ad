// SPDX-License-Identifier: Apache-2.0

#include "base/reclaim.h"
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
    struct fleet_model models[] = {{first, first}, {second, second}};
    fleet_set_models(fleet, backends[backend], models, second == NULL ? 1 : 2);
}

// Who serves `model`, as "ab"; "-" when nobody does.
static const char *who(const char *model)
{
    static char names[8];
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
    CHECK_STR(who("p"), "c"); // nobody says so but the configuration
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
        models[i] = (struct fleet_model){names[i], names[i]};
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
