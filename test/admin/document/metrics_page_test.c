// SPDX-License-Identifier: Apache-2.0

#include "admin/document/metrics_page.h"

#include "admin/metrics_scene.h"
#include "base/text.h"
#include "metrics/metric_table.h"
#include "test.h"

static struct metrics_scene scene;
static char page[1 << 20];
static char lines[1 << 20];

static void write_page(void)
{
    struct text text = text_over(page, sizeof(page) - 1);
    bool is_whole = metrics_page_write(&scene.input, &text);
    ASSERT(is_whole);
    page[text.size] = '\0';
}

static bool is_detail(const char *line, size_t size)
{
    return line[0] == '#' || memmem(line, size, "_bucket{", 8) != NULL;
}

// The page without comments and buckets, from the first line that begins with `from` to the last
// one.
static const char *lines_of(const char *from)
{
    size_t size = 0;
    for (const char *at = page; *at != '\0';) {
        size_t line_size = strcspn(at, "\n") + 1;
        if (!is_detail(at, line_size) && strncmp(at, from, strlen(from)) == 0) {
            memcpy(lines + size, at, line_size);
            size += line_size;
        }
        at += line_size;
    }
    lines[size] = '\0';
    return lines;
}

// Whether a sample of that name belongs to the row: its own name, or that of a part.
static bool belongs(const struct metric_row *row, struct slice name)
{
    static const char *const parts[] = {"_bucket", "_sum", "_count"};
    bool has_parts = row->type == METRIC_TYPE_HISTOGRAM || row->type == METRIC_TYPE_SUMMARY;
    char whole[128];

    for (size_t i = row->type == METRIC_TYPE_SUMMARY; has_parts && i < ARRAY_COUNT(parts); i++) {
        snprintf(whole, sizeof(whole), "%s%s", row->name, parts[i]);
        if (slice_is(name, whole)) {
            return true;
        }
    }
    return !has_parts && slice_is(name, row->name);
}

// The lines of one row at `at`; NULL when they are not what the row says.
static const char *skip_row(const char *at, const struct metric_row *row)
{
    char comments[1024];
    uint32_t samples = 0;

    snprintf(comments, sizeof(comments), "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help,
             row->name, metric_type_name(row->type));
    if (strncmp(at, comments, strlen(comments)) != 0) {
        return NULL;
    }
    at += strlen(comments);
    while (*at != '\0' && *at != '#') {
        if (!belongs(row, slice_of(at, strcspn(at, "{ ")))) {
            return NULL;
        }
        at = strchr(at, '\n') + 1;
        samples++;
    }
    return samples > 0 ? at : NULL;
}

TEST(every_row_of_the_table_is_written_and_nothing_else_is)
{
    metrics_scene_open(&scene);
    // So that what is learned is there.
    struct load *load = &fleet_at(scene.scene.fleet, 0)->load;
    atomic_store(&load->prefill_ms, 0.5F);
    atomic_store(&load->prefill_samples, 1);
    atomic_store(&load->step_samples, 1);
    load_report(load, &(struct load_report){.kv_usage = 0.5F, .cache_tokens = 100},
                scene.input.now_ms);
    backend_set_probe(fleet_at(scene.scene.fleet, 0), BACKEND_PROBE_UP, scene.input.now_ms);
    write_page();
    const char *at = page;
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const char *next = skip_row(at, metric_row(i));
        if (next == NULL) {
            test_fail(__FILE__, __LINE__, "%s is not at: %.60s", metric_row(i)->name, at);
            break;
        }
        at = next;
    }
    CHECK_STR(at, "");
    metrics_scene_close(&scene);
}

#define FIRST "{backend=\"http://10.0.0.1:8000\""
#define SECOND "{backend=\"http://10.0.0.2:8000\""

TEST(a_name_that_was_cut_within_a_letter_does_not_cost_the_scrape)
{
    metrics_scene_open(&scene);
    scene_note(scene.meters[0], fleet_at(scene.scene.fleet, 0), "gr\xc3\xbc\xc3", RECEIPT_OK);
    write_page();
    CHECK(strstr(page, FIRST ",model=\"gr\xc3\xbc?\",policy=\"warm\",outcome=\"ok\"} 1\n") != NULL);
    CHECK(strstr(page, "first_token_seconds_count{model=\"gr\xc3\xbc?\"} 1\n") != NULL);
    metrics_scene_close(&scene);
}

TEST(requests_are_told_by_backend_model_policy_and_outcome)
{
    metrics_scene_open(&scene);
    write_page();
    CHECK_STR(lines_of("warmpath_requests_total"),
              "warmpath_requests_total" FIRST ",model=\"m\",policy=\"warm\",outcome=\"ok\"} 2\n"
              "warmpath_requests_total" FIRST ",model=\"n\\\"\",policy=\"warm\",outcome=\"ok\"} 1\n"
              "warmpath_requests_total" SECOND ",model=\"m\",policy=\"warm\",outcome=\"ok\"} 0\n"
              "warmpath_requests_total" SECOND ",model=\"m\",policy=\"warm\",outcome=\"gone\"} 1\n"
              "warmpath_requests_total{backend=\"none\",model=\"none\",policy=\"none\","
              "outcome=\"refused\"} 1\n");
    metrics_scene_close(&scene);
}

TEST(waiting_times_are_shown_by_model_over_all_workers)
{
    metrics_scene_open(&scene);
    write_page();
    CHECK_STR(lines_of("warmpath_time_to_first_token_seconds"),
              "warmpath_time_to_first_token_seconds_sum{model=\"m\"} 0.75\n"
              "warmpath_time_to_first_token_seconds_count{model=\"m\"} 3\n"
              "warmpath_time_to_first_token_seconds_sum{model=\"n\\\"\"} 0.25\n"
              "warmpath_time_to_first_token_seconds_count{model=\"n\\\"\"} 1\n");
    CHECK_STR(lines_of("warmpath_time_per_output_token_seconds_sum{model=\"m\""),
              "warmpath_time_per_output_token_seconds_sum{model=\"m\"} 0.03\n");
    CHECK_STR(lines_of("warmpath_request_duration_seconds_count{model=\"m\""),
              "warmpath_request_duration_seconds_count{model=\"m\"} 2\n");
    CHECK_STR(lines_of("warmpath_routing_stage_seconds_sum{stage=\"parse\""),
              "warmpath_routing_stage_seconds_sum{stage=\"parse\"} 0.000006\n");
    // 0.25 s is below the first bound that has it, and above the one before.
    CHECK(strstr(page, "first_token_seconds_bucket{model=\"m\",le=\"0.228070016\"} 0\n") != NULL);
    CHECK(strstr(page, "first_token_seconds_bucket{model=\"m\",le=\"0.256\"} 3\n") != NULL);
    CHECK(strstr(page, "first_token_seconds_bucket{model=\"m\",le=\"+Inf\"} 3\n") != NULL);
    metrics_scene_close(&scene);
}

TEST(caches_are_told_by_backend)
{
    metrics_scene_open(&scene);
    write_page();
    CHECK_STR(lines_of("warmpath_prompt_tokens_total"),
              "warmpath_prompt_tokens_total" FIRST "} 3000\n"
              "warmpath_prompt_tokens_total" SECOND "} 1000\n");
    CHECK_STR(lines_of("warmpath_predicted_cached_tokens_total" FIRST),
              "warmpath_predicted_cached_tokens_total" FIRST "} 1920\n");
    CHECK_STR(lines_of("warmpath_cached_tokens_total" FIRST),
              "warmpath_cached_tokens_total" FIRST "} 1800\n");
    CHECK_STR(lines_of("warmpath_prediction_error_tokens_total" FIRST),
              "warmpath_prediction_error_tokens_total" FIRST "} 120\n");
    CHECK_STR(lines_of("warmpath_saved_prefill_seconds_total" FIRST),
              "warmpath_saved_prefill_seconds_total" FIRST "} 4.5\n");
    CHECK_STR(lines_of("warmpath_backend_time_to_first_token_seconds"),
              "warmpath_backend_time_to_first_token_seconds_sum" FIRST "} 0.75\n"
              "warmpath_backend_time_to_first_token_seconds_count" FIRST "} 3\n"
              "warmpath_backend_time_to_first_token_seconds_sum" SECOND "} 0.25\n"
              "warmpath_backend_time_to_first_token_seconds_count" SECOND "} 1\n");
    metrics_scene_close(&scene);
}

TEST(backends_are_told_with_their_pool_and_their_events)
{
    char info[256];
    metrics_scene_open(&scene);
    write_page();
    snprintf(info, sizeof(info),
             "warmpath_backend_info" FIRST ",id=\"%lu\",pool=\"main\"} 1\n"
             "warmpath_backend_info" SECOND ",id=\"%lu\",pool=\"other\"} 1\n",
             (unsigned long)fleet_at(scene.scene.fleet, 0)->id,
             (unsigned long)fleet_at(scene.scene.fleet, 1)->id);
    CHECK_STR(lines_of("warmpath_backend_info"), info);
    CHECK_STR(lines_of("warmpath_backend_weight"), "warmpath_backend_weight" FIRST "} 1\n"
                                                   "warmpath_backend_weight" SECOND "} 3\n");
    CHECK_STR(lines_of("warmpath_backend_probe_up"), "");
    CHECK_STR(lines_of("warmpath_events_"),
              "warmpath_events_stray_messages_total 305\n"
              "warmpath_events_live" FIRST "} 1\n"
              "warmpath_events_connected" FIRST "} 1\n"
              "warmpath_events_silence_seconds" FIRST "} 1.234\n"
              "warmpath_events_lag_seconds" FIRST "} 0.056\n"
              "warmpath_events_blocks" FIRST "} 501\n"
              "warmpath_events_orphans_waiting" FIRST "} 502\n"
              "warmpath_events_messages_total" FIRST "} 503\n"
              "warmpath_events_gaps_total" FIRST "} 504\n"
              "warmpath_events_missed_messages_total" FIRST "} 505\n"
              "warmpath_events_replays_total" FIRST "} 506\n"
              "warmpath_events_failed_replays_total" FIRST "} 507\n"
              "warmpath_events_restarts_total" FIRST "} 508\n"
              "warmpath_events_purges_total" FIRST "} 509\n"
              "warmpath_events_malformed_messages_total" FIRST "} 510\n"
              "warmpath_events_stored_blocks_total" FIRST "} 511\n"
              "warmpath_events_removed_blocks_total" FIRST "} 512\n"
              "warmpath_events_orphans_total" FIRST "} 513\n");
    metrics_scene_close(&scene);
}

TEST(the_router_is_told_as_a_whole)
{
    metrics_scene_open(&scene);
    write_page();
    CHECK_STR(lines_of("warmpath_build_info"),
              "warmpath_build_info{version=\"" WARMPATH_VERSION "\"} 1\n");
    CHECK_STR(lines_of("warmpath_problems_total{code=\"no_backend\""),
              "warmpath_problems_total{code=\"no_backend\"} 110\n");
    CHECK_STR(lines_of("warmpath_problems_total{code=\"conflict\""),
              "warmpath_problems_total{code=\"conflict\"} 0\n");
    CHECK_STR(lines_of("warmpath_poison_"), "warmpath_poison_requests_total 111\n");
    CHECK_STR(lines_of("warmpath_upstream_"), "warmpath_upstream_idle_connections 105\n"
                                              "warmpath_upstream_connections_opened_total 103\n"
                                              "warmpath_upstream_connections_reused_total 104\n");
    CHECK_STR(lines_of("warmpath_index_"), "warmpath_index_memory_bytes 201\n"
                                           "warmpath_index_runs 202\n"
                                           "warmpath_index_evictions_total 203\n"
                                           "warmpath_index_expiries_total 204\n"
                                           "warmpath_index_letters_lost_total 205\n");
    CHECK_STR(lines_of("warmpath_ledger_"), "warmpath_ledger_memory_bytes 301\n"
                                            "warmpath_ledger_memory_limit_bytes 302\n"
                                            "warmpath_ledger_runs 303\n"
                                            "warmpath_ledger_refused_blocks_total 304\n");
    CHECK_STR(lines_of("warmpath_access_log_"), "warmpath_access_log_lines_total 401\n"
                                                "warmpath_access_log_dropped_lines_total 402\n");
    CHECK_STR(lines_of("warmpath_spans_"), "warmpath_spans_exported_total 403\n"
                                           "warmpath_spans_dropped_total 404\n");
    CHECK_STR(lines_of("process_"), "process_cpu_seconds_total 1.5\n"
                                    "process_resident_memory_bytes 601\n"
                                    "process_virtual_memory_bytes 602\n"
                                    "process_open_fds 603\n"
                                    "process_max_fds 604\n"
                                    "process_start_time_seconds 1763234567.89\n");
    metrics_scene_close(&scene);
}

TEST(the_cluster_is_told_by_counts_and_by_the_routers_that_are_there)
{
    metrics_scene_open(&scene);
    write_page();
    CHECK_STR(lines_of("warmpath_cluster_"), "warmpath_cluster_up 1\n"
                                             "warmpath_cluster_peers 2\n"
                                             "warmpath_cluster_incomplete_peers 1\n"
                                             "warmpath_cluster_peer_silence_seconds 0.721\n"
                                             "warmpath_cluster_lag_seconds 0.722\n"
                                             "warmpath_cluster_others_requests_in_flight 718\n"
                                             "warmpath_cluster_notes_total 702\n"
                                             "warmpath_cluster_notes_dropped_total 701\n"
                                             "warmpath_cluster_batches_sent_total 703\n"
                                             "warmpath_cluster_batches_dropped_total 704\n"
                                             "warmpath_cluster_batches_received_total 705\n"
                                             "warmpath_cluster_bytes_sent_total 720\n"
                                             "warmpath_cluster_bytes_received_total 719\n"
                                             "warmpath_cluster_gaps_total 706\n"
                                             "warmpath_cluster_orphans_total 707\n"
                                             "warmpath_cluster_malformed_frames_total 708\n"
                                             "warmpath_cluster_foreign_frames_total 709\n"
                                             "warmpath_cluster_ended_lives_total 710\n"
                                             "warmpath_cluster_snapshots_asked_total 711\n"
                                             "warmpath_cluster_snapshots_taken_total 712\n"
                                             "warmpath_cluster_snapshots_given_total 713\n"
                                             "warmpath_cluster_snapshot_age_seconds 0.715\n"
                                             "warmpath_cluster_snapshot_seconds 0.714\n"
                                             "warmpath_cluster_open_predictions 716\n"
                                             "warmpath_cluster_memory_bytes 717\n");
    metrics_scene_close(&scene);
}

TEST(a_router_without_peers_or_a_snapshot_leaves_their_times_out)
{
    metrics_scene_open(&scene);
    scene.cluster = (struct cluster_status){.now_ms = 10000};
    write_page();
    CHECK_STR(lines_of("warmpath_cluster_peer"), "warmpath_cluster_peers 0\n");
    CHECK_STR(lines_of("warmpath_cluster_up"), "warmpath_cluster_up 0\n");
    CHECK_STR(lines_of("warmpath_cluster_snapshot_"), "");
    metrics_scene_close(&scene);
}

TEST(a_router_without_a_cluster_has_no_values_of_one)
{
    metrics_scene_open(&scene);
    scene.input.cluster = NULL;
    write_page();
    CHECK_STR(lines_of("warmpath_cluster_"), "");
    metrics_scene_close(&scene);
}

TEST(a_backend_has_the_load_of_this_router_without_that_of_others)
{
    metrics_scene_open(&scene);
    struct load *load = &fleet_at(scene.scene.fleet, 0)->load;
    load_set_others(load,
                    &(struct load_others){
                        .requests = 1, .sequences = 2, .queued_tokens = 3, .context_tokens = 4});
    write_page();
    CHECK_STR(lines_of("warmpath_backend_queued_tokens" FIRST),
              "warmpath_backend_queued_tokens" FIRST "} 0\n");
    CHECK_STR(lines_of("warmpath_backend_decoding_requests" FIRST),
              "warmpath_backend_decoding_requests" FIRST "} 0\n");
    CHECK_STR(lines_of("warmpath_backend_context_tokens" FIRST),
              "warmpath_backend_context_tokens" FIRST "} 0\n");
    metrics_scene_close(&scene);
}

TEST(tokenizers_are_told_by_their_path)
{
    metrics_scene_open(&scene);
    struct dialect *dialect = scene.tiny.set.dialects[0];
    atomic_store(&dialect->shared.certified, CHAT_PLAIN_SHAPE | CHAT_TOOLS_SHAPE);
    atomic_store(&dialect->shared.revoked, CHAT_TOOLS_SHAPE);
    atomic_store(&dialect->shared.by_ids_count, 11);
    atomic_store(&dialect->shared.by_text_count, 12);
    atomic_store(&dialect->shared.confirmed_count, 13);
    atomic_store(&dialect->shared.drift_count, 14);
    atomic_store(&dialect->shared.text_bytes, 15);
    atomic_store(&dialect->shared.known_bytes, 16);
    write_page();
#define TINY "{tokenizer=\"/models/tiny\"}"
    CHECK_STR(lines_of("warmpath_tokenizer_"),
              "warmpath_tokenizer_token_id_requests_total" TINY " 11\n"
              "warmpath_tokenizer_text_requests_total" TINY " 12\n"
              "warmpath_tokenizer_confirmed_requests_total" TINY " 13\n"
              "warmpath_tokenizer_drifted_requests_total" TINY " 14\n"
              "warmpath_tokenizer_text_bytes_total" TINY " 15\n"
              "warmpath_tokenizer_remembered_bytes_total" TINY " 16\n"
              "warmpath_tokenizer_certified_features" TINY " 1\n"
              "warmpath_tokenizer_revoked_features" TINY " 1\n");
    metrics_scene_close(&scene);
}

TEST(metrics_without_a_source_have_no_values)
{
    static const struct meters *const none[2] = {NULL, NULL};
    metrics_scene_open(&scene);
    scene.input.meters = none;
    write_page();
    CHECK_STR(lines_of("warmpath_requests_total"), "");
    CHECK_STR(lines_of("warmpath_routing_stage_seconds"), "");
    CHECK_STR(lines_of("warmpath_backend_time_to_first_token_seconds"), "");
    CHECK_STR(lines_of("warmpath_cached_tokens_total"), "");
    CHECK_STR(lines_of("warmpath_workers"), "warmpath_workers 2\n");
    CHECK(strstr(page, "# TYPE warmpath_requests_total counter\n") != NULL);
    metrics_scene_close(&scene);
}

TEST(a_page_is_whole_or_known_not_to_be)
{
    metrics_scene_open(&scene);
    struct text text = text_over(page, 20000);
    CHECK(!metrics_page_write(&scene.input, &text));
    CHECK(text.size <= 20000);
    metrics_scene_close(&scene);
}
