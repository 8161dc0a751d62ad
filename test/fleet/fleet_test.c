// SPDX-License-Identifier: Apache-2.0

#include "fleet/fleet.h"

#include "base/reclaim.h"
#include "test.h"

static struct reclaim reclaim;

static struct fleet *make_fleet(uint32_t slots, uint32_t pools)
{
    reclaim_init(&reclaim, 1);
    struct fleet *fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = slots, .pool_count = pools}, &reclaim);
    ASSERT(fleet != NULL);
    return fleet;
}

static struct backend *add(struct fleet *fleet, const char *url, uint32_t pool)
{
    struct backend *backend = fleet_add(
        fleet,
        &(struct fleet_spec){.url = url, .host = "h", .port = 80, .weight = 1, .pool = pool});
    ASSERT(backend != NULL);
    return backend;
}

static void serve(struct fleet *fleet, struct backend *backend, const char *name)
{
    struct fleet_model model = {.name = name, .document = name};
    fleet_set_models(fleet, backend, &model, 1);
}

TEST(changes_show_only_when_published)
{
    struct fleet *fleet = make_fleet(4, 1);
    const struct fleet_view *before = fleet_view(fleet);
    CHECK_EQ(before->member_count, 0);
    struct backend *a = add(fleet, "http://a", 0);
    CHECK(fleet_view(fleet) == before);
    CHECK(fleet_publish(fleet));
    const struct fleet_view *after = fleet_view(fleet);
    CHECK(after != before);
    CHECK_EQ(after->member_count, 1);
    CHECK(after->members[0].backend == a);
    CHECK(fleet_publish(fleet));
    CHECK(fleet_view(fleet) == after); // nothing changed, nothing published
    fleet_destroy(&fleet);
    CHECK(fleet == NULL);
}

TEST(a_slot_is_free_again_only_when_no_reader_and_no_request_is_left)
{
    struct fleet *fleet = make_fleet(1, 1);
    struct backend *a = add(fleet, "http://a", 0);
    struct fleet_spec spec = {.url = "http://b", .host = "h", .weight = 1};
    CHECK(fleet_publish(fleet));
    bool on_trial;
    CHECK(backend_begin(a, 0, false, &on_trial));

    fleet_remove(fleet, a);
    fleet_reclaim(fleet);
    CHECK(fleet_add(fleet, &spec) == NULL);
    CHECK(fleet_publish(fleet));
    reclaim_announce(&reclaim, 0, reclaim_epoch(&reclaim));
    fleet_reclaim(fleet);
    CHECK(fleet_add(fleet, &spec) == NULL); // a request is still on it
    backend_end(a, on_trial);
    fleet_reclaim(fleet);
    CHECK(fleet_add(fleet, &spec) != NULL);
    fleet_destroy(&fleet);
}

TEST(a_reader_that_has_not_moved_on_keeps_its_view)
{
    struct fleet *fleet = make_fleet(4, 1);
    struct backend *a = add(fleet, "http://a", 0);
    CHECK(fleet_publish(fleet));
    reclaim_announce(&reclaim, 0, reclaim_epoch(&reclaim));
    const struct fleet_view *held = fleet_view(fleet);
    fleet_remove(fleet, a);
    CHECK(fleet_publish(fleet));
    fleet_reclaim(fleet);
    CHECK_STR(held->members[0].backend->url, "http://a"); // freed memory would tell under asan
    fleet_destroy(&fleet);
}

TEST(finds_weights_draining_and_names)
{
    struct fleet *fleet = make_fleet(4, 1);
    struct backend *a = add(fleet, "http://a", 0);
    fleet_set_weight(fleet, a, 7);
    fleet_set_draining(fleet, a, true);
    CHECK(fleet_publish(fleet));
    CHECK_EQ(fleet_view(fleet)->members[0].weight, 7);
    CHECK(fleet_view(fleet)->members[0].draining);
    CHECK(fleet_find(fleet, a->id) == a);
    CHECK(fleet_find(fleet, a->id + 1) == NULL);
    CHECK(fleet_at(fleet, 0) == a && fleet_at(fleet, 1) == NULL);
    const struct fleet_member *member = fleet_member(fleet, a);
    CHECK(member->backend == a && member->slot == a->slot);
    CHECK(member->weight == 7 && member->draining);
    CHECK(fleet_member_at(fleet, 0) == member && fleet_member_at(fleet, 1) == NULL);
    CHECK(fleet_model_name(fleet, a, 0) == NULL);
    serve(fleet, a, "m");
    CHECK_STR(fleet_model_name(fleet, a, 0), "m");
    fleet_destroy(&fleet);
}

TEST(models_named_by_the_operator_are_not_unlearned)
{
    struct fleet *fleet = make_fleet(4, 1);
    const char *names[] = {"m1"};
    struct backend *a = fleet_add(fleet, &(struct fleet_spec){.url = "http://a",
                                                              .host = "h",
                                                              .weight = 1,
                                                              .api_key = "secret",
                                                              .models = names,
                                                              .model_count = 1});
    CHECK_STR(a->authorization, "Bearer secret");
    serve(fleet, a, "m2");
    CHECK(fleet_publish(fleet));
    CHECK(fleet_view_find(fleet_view(fleet), slice_str("m1")) != NULL);
    CHECK(fleet_view_find(fleet_view(fleet), slice_str("m2")) == NULL);
    fleet_destroy(&fleet);
}

TEST(a_backend_knows_its_rank_and_where_it_publishes)
{
    struct fleet *fleet = make_fleet(4, 1);
    char endpoint[] = "tcp://h:5558";
    struct backend *a = fleet_add(fleet, &(struct fleet_spec){.url = "http://a#rank=1",
                                                              .host = "h",
                                                              .weight = 1,
                                                              .rank = 1,
                                                              .rank_count = 2,
                                                              .events = endpoint,
                                                              .events_replay = "tcp://h:5658",
                                                              .events_topic = "kv"});
    endpoint[0] = 'x';
    CHECK_EQ(a->rank, 1);
    CHECK_EQ(a->rank_count, 2);
    CHECK_STR(a->events, "tcp://h:5558");
    CHECK_STR(a->events_replay, "tcp://h:5658");
    CHECK_STR(a->events_topic, "kv");
    struct backend *b = add(fleet, "http://b", 0);
    CHECK_EQ(b->rank, 0);
    CHECK_EQ(b->rank_count, 1);
    CHECK(b->events == NULL && b->events_replay == NULL);
    CHECK_STR(b->events_topic, "");
    fleet_destroy(&fleet);
}

TEST(a_backend_is_addressed_as_a_host_field_has_it)
{
    static const struct {
        const char *host;
        const char *authority;
    } cases[] = {{"10.0.0.1", "10.0.0.1:80"}, {"::1", "[::1]:80"}, {"name", "name:80"}};
    struct fleet *fleet = make_fleet(4, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct backend *backend = fleet_add(
            fleet, &(struct fleet_spec){
                       .url = cases[i].host, .host = cases[i].host, .port = 80, .weight = 1});
        CHECK_STR(backend->authority, cases[i].authority);
    }
    fleet_destroy(&fleet);
}
