// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_run.h"

#include "drive/run_fixture.h"
#include "test.h"

TEST(an_open_loop_sends_all_that_is_due_and_ends)
{
    struct scene scene;
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .rate = 400, .requests = 60});
    scene_run(&scene);
    const struct drive_tally *tally = drive_run_tally(scene.run);
    CHECK_EQ(tally->sent, 60);
    CHECK_EQ(tally->done, 60);
    CHECK_EQ(tally->sample_count, 60);
    CHECK_EQ(tally->error_count, 0);
    CHECK(workload_is_over(scene.workload));
    scene_close(&scene);
}

TEST(at_most_as_many_requests_are_in_flight_as_there_are_users)
{
    struct scene scene;
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .users = 3, .requests = 6});
    scene.options.is_closed = true;
    scene_run(&scene);
    CHECK_EQ(drive_run_tally(scene.run)->sample_count, 6);
    CHECK(drive_run_counts(scene.run).in_flight_max <= 3);
    scene_close(&scene);
}

TEST(waiting_for_a_free_connection_counts_as_response_time)
{
    struct scene scene;
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .rate = 1000, .requests = 20});
    scene.options.client.connections_max = 1;
    scene.server.answer_ms = 10;
    scene_run(&scene);
    struct figures figures;
    drive_run_sum(scene.run, &figures);
    // One after the other, 10 ms each: the last one waited for the 19 before it.
    CHECK_EQ(figures.request_count, 20);
    CHECK(figures.ttft.max > 150);
    CHECK(drive_run_tally(scene.run)->late.max_ns > 140000000);
    scene_close(&scene);
}

TEST(requests_that_could_not_be_sent_are_counted)
{
    struct scene scene;
    scene_open(&scene,
               &(struct workload_options){.kind = "sharing", .rate = 1000, .requests = 1000});
    scene.options.client.connections_max = 1;
    scene.options.duration_s = 0.2;
    scene.server.answer_ms = 20;
    scene_run(&scene);
    const struct drive_tally *tally = drive_run_tally(scene.run);
    CHECK(tally->errors[DRIVE_UNSENT] > 100);
    CHECK(tally->errors[DRIVE_UNSENT] + tally->sent > 130);
    CHECK(tally->errors[DRIVE_UNSENT] + tally->sent < 280);
    scene_close(&scene);
}

TEST(requests_due_just_before_the_end_are_sent)
{
    struct scene scene;
    scene_open(&scene,
               &(struct workload_options){.kind = "sharing", .rate = 2000, .requests = 4000});
    scene.options.duration_s = 0.1;
    // A connection for each request: a loop that wakes after the end still sends those due before.
    scene.options.client.connections_max = 512;
    scene_run(&scene);
    const struct drive_tally *tally = drive_run_tally(scene.run);
    CHECK(tally->sent > 120);
    CHECK_EQ(tally->error_count, 0);
    scene_close(&scene);
}

TEST(warm_up_is_by_number_or_by_time)
{
    struct scene scene;
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .rate = 1000, .requests = 30});
    scene.options.warm_up_requests = 10;
    scene_run(&scene);
    CHECK_EQ(drive_run_tally(scene.run)->done, 30);
    CHECK_EQ(drive_run_tally(scene.run)->sample_count, 20);
    scene_close(&scene);

    scene_open(&scene, &(struct workload_options){.kind = "sharing", .rate = 200, .requests = 30});
    scene.options.warm_up_s = 0.05;
    scene_run(&scene);
    CHECK(drive_run_tally(scene.run)->sample_count < 30);
    CHECK(drive_run_tally(scene.run)->sample_count > 5);
    CHECK(drive_run_tally(scene.run)->samples[0].due_ms >= 50);
    scene_close(&scene);
}

static void stop_at_once(void *owner, const struct drive_run *run)
{
    struct scene *scene = owner;
    (void)run;
    drive_run_stop(scene->run);
}

TEST(a_stopped_run_ends_at_once_with_its_figures_so_far)
{
    struct scene scene;
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .rate = 200, .requests = 100});
    scene.server.answer_ms = 100000;
    scene.options.watch_ms = 50;
    scene.options.watch = stop_at_once;
    scene.options.watch_owner = &scene;
    scene_run(&scene);
    const struct drive_tally *tally = drive_run_tally(scene.run);
    CHECK_EQ(tally->done, 0);
    CHECK(tally->cut > 0);
    CHECK_EQ(tally->cut, tally->sent);
    // A request that fell due after the last turn of the loop was not sent.
    CHECK_EQ(tally->error_count, tally->errors[DRIVE_UNSENT]);
    scene_close(&scene);
}

TEST(a_refused_user_waits_before_the_next_request)
{
    struct scene scene;
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .users = 5, .requests = 1000});
    scene.options.is_closed = true;
    scene.options.duration_s = 2;
    run_server_close(&scene.server);
    scene_run(&scene);
    const struct drive_tally *tally = drive_run_tally(scene.run);
    CHECK(tally->errors[DRIVE_REFUSED] > 0);
    CHECK(tally->sent <= 10); // within 2 s each asks twice at most
    CHECK_EQ(tally->responded, 0);
    scene_close(&scene);
}
