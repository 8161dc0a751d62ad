// SPDX-License-Identifier: Apache-2.0

#include "json/json.h"
#include "lab/paper.h"
#include "sweep/report.h"

static const struct report_options judged = {.judge = 0};

static bool is_json(void)
{
    struct json json = json_open(slice_str(paper));
    struct json_item item;
    bool is_object = json_next(&json, &item) && item.value.kind == JSON_OBJECT;
    return json_close(&json) == STATUS_OK && is_object;
}

TEST(all_of_it_is_one_json_object)
{
    struct sweep_options options = grid_options();
    options.seed_count = 2;
    paper_write(&options, &judged, report_json_write);
    CHECK(is_json());
    CHECK_EQ(paper_count("{\"workload\": "), 16);
    CHECK_EQ(paper_count("{\"policy\": "), 48);
    CHECK_EQ(paper_count("{\"seed\": 3"), 48);
    CHECK_EQ(paper_count("\"ttft_curve_ms\": ["), 48);
    CHECK_EQ(paper_count("\"model\": \"large\", \"backends\": 8, \"level\": 0.9, "
                         "\"saturation_per_s\": 2, \"rate_per_s\": 1.8"),
             2);
}

TEST(the_score_is_in_it)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &judged, report_json_write);
    CHECK_EQ(paper_count("\"score\": {\"judge\": \"warm\", \"points\": 16, \"all\": 2, "
                         "\"TTFT\": {\"mean\": 2, \"worst\": 2,"),
             1);
    paper_write(&options, &(struct report_options){.judge = report_no_judge}, report_json_write);
    CHECK(is_json());
    CHECK_EQ(paper_count("\"score\""), 0);
}

TEST(equal_runs_give_equal_bytes)
{
    static char before[sizeof(paper)];
    struct sweep_options options = grid_options();
    options.seed_count = 3;
    options.thread_count = 1;
    paper_write(&options, &judged, report_json_write);
    memcpy(before, paper, sizeof(paper));
    options.thread_count = 4;
    paper_write(&options, &judged, report_json_write);
    CHECK(strcmp(before, paper) == 0);
    CHECK_EQ(paper_count("wall_s"), 0);
}

TEST(changes_stand_behind_the_figures)
{
    struct sweep_options options = grid_options();
    options.seed_count = 3;
    options.changes = &grid_change;
    options.change_count = 1;
    paper_write(&options, &judged, report_json_write);
    CHECK(is_json());
    CHECK_EQ(paper_count("\"changes\": [{\"change\": \"join:2@60s\", \"share_10s\": null, "
                         "\"share_30s\": 0.5, \"share_60s\": 1, \"ttft_p50_ms\": "),
             4 * 48);
}

TEST(several_routers_stand_in_the_options)
{
    struct sweep_options options = grid_options();
    options.sharing = (struct lab_sharing){
        .router_count = 3, .sync_ms = 20, .loss = 0.25, .spread = LAB_SPREAD_CLIENT};
    paper_write(&options, &judged, report_json_write);
    CHECK(is_json());
    CHECK_EQ(
        paper_count("\"routers\": 3, \"sync_ms\": 20, \"loss\": 0.25, \"spread\": \"client\"}"), 1);
    options.sharing.sync_ms = lab_sync_never_ms;
    paper_write(&options, &judged, report_json_write);
    CHECK_EQ(paper_count("\"sync_ms\": null"), 1);
    options.sharing.router_count = 1;
    paper_write(&options, &judged, report_json_write);
    CHECK_EQ(paper_count("\"routers\""), 0);
}

TEST(wall_times_come_when_asked_for)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &(struct report_options){.judge = 0, .has_wall_time = true},
                report_json_write);
    CHECK(is_json());
    CHECK_EQ(paper_count("\"wall_s\": "), 48);
}
