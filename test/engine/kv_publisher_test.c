// SPDX-License-Identifier: Apache-2.0

#include "engine/kv_publisher.h"

#include "engine/zmtp_client.h"
#include "test.h"

struct scene {
    struct loop *loop;
    struct kv_publisher *publisher;
    struct zmtp_client client;
};

// Listens where the kernel likes.
static struct scene *scene_open(const struct kv_publisher_options *options)
{
    static struct scene scene;
    char error[kv_publisher_error_size];
    struct kv_publisher_options all = *options;

    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    all.loop = scene.loop;
    all.host = "127.0.0.1";
    all.has_replay = true;
    ASSERT(kv_publisher_create(&all, &scene.publisher, error) == STATUS_OK);
    return &scene;
}

static void scene_close(struct scene *scene)
{
    client_close(&scene->client);
    kv_publisher_destroy(&scene->publisher);
    ASSERT(scene->publisher == NULL);
    loop_turn(scene->loop, 0);
    loop_destroy(&scene->loop);
}

static struct kv_publisher_status status_of(const struct scene *scene)
{
    struct kv_publisher_status status;
    kv_publisher_status(scene->publisher, &status);
    return status;
}

static bool subscribe(struct scene *scene)
{
    client_open(&scene->client, scene->loop, status_of(scene).port);
    client_say(&scene->client, BYTES(GREETING_1 READY_SUB));
    bool is_welcome = client_hears(&scene->client, BYTES(GREETING_1 READY_XPUB));
    client_say(&scene->client, BYTES("\0\1\1"));
    for (int i = 0; i < 1000 && status_of(scene).subscriber_count == 0; i++) {
        loop_turn(scene->loop, 5);
    }
    return is_welcome && status_of(scene).subscriber_count == 1;
}

static bool ask_for_all(struct scene *scene)
{
    client_open(&scene->client, scene->loop, status_of(scene).replay_port);
    client_say(&scene->client, BYTES(GREETING_1 READY_DEALER));
    bool is_welcome = client_hears(&scene->client, BYTES(GREETING_1 READY_ROUTER));
    client_say(&scene->client, BYTES("\1\0\0\10\0\0\0\0\0\0\0\0"));
    return is_welcome;
}

static void store(struct scene *scene, uint64_t key, uint64_t parent)
{
    const uint32_t tokens[] = {1, 2, 3, 4};
    kv_publisher_stored(scene->publisher, &(struct kv_stored){.keys = &key,
                                                              .token_ids = tokens,
                                                              .count = 1,
                                                              .has_parent = parent != 0,
                                                              .parent = parent});
}

#define TIME "\xcb\x41\xda\x2a\x41\x20\x20\0\0"
#define SECONDS 1755907200.5

TEST(a_batch_has_the_events_since_the_last_one_in_order)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .topic = "kv", .block_tokens = 4, .format = kv_event_format_find("vllm-0.10.2")});
    CHECK(subscribe(scene));
    kv_publisher_flush(scene->publisher, SECONDS);
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 9);
    store(scene, 9, 5);
    kv_publisher_cleared(scene->publisher);
    CHECK(client_is_in_step(&scene->client));
    kv_publisher_flush(scene->publisher, SECONDS);
    kv_publisher_flush(scene->publisher, SECONDS);
    store(scene, 7, 0);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(client_hears(&scene->client, BYTES("\1\2kv\1\10\0\0\0\0\0\0\0\0\0\x4d"
                                             "\x93" TIME "\x93"
                                             "\x93\xac"
                                             "BlockRemoved\x91\x09\xa3GPU"
                                             "\x97\xab"
                                             "BlockStored\x91\x09\x05\x94\1\2\3\4\4\xc0\xa3GPU"
                                             "\x91\xb0"
                                             "AllBlocksCleared\0")));
    CHECK(
        client_hears(&scene->client, BYTES("\1\2kv\1\10\0\0\0\0\0\0\0\1\0\x27"
                                           "\x93" TIME "\x91"
                                           "\x97\xab"
                                           "BlockStored\x91\x07\xc0\x94\1\2\3\4\4\xc0\xa3GPU\0")));
    CHECK(client_is_in_step(&scene->client));
    CHECK_EQ(status_of(scene).next_sequence, 2);
    CHECK_EQ(status_of(scene).batch_count, 2);
    CHECK_EQ(status_of(scene).subscriber_count, 1);
    scene_close(scene);
}

TEST(the_default_is_the_format_of_the_current_vllm)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){.block_tokens = 4, .rank = -1});
    store(scene, 7, 0);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(ask_for_all(scene));
    CHECK(
        client_hears(&scene->client, BYTES("\1\0\1\0\1\10\0\0\0\0\0\0\0\0\0\xb4\x93" TIME "\x91\x8b"
                                           "\xa4type\xab"
                                           "BlockStored\xac"
                                           "block_hashes\x91\x07\xb1parent_block_hash\xc0"
                                           "\xa9token_ids\x94\1\2\3\4\xaa"
                                           "block_size\4\xa7lora_id\xc0\xa6medium\xa3GPU"
                                           "\xa9lora_name\xc0\xaa"
                                           "extra_keys\x91\xc0\xa9group_idx\0"
                                           "\xb2kv_cache_spec_kind\xae"
                                           "full_attention\xc0"
                                           "\1\0\1\0\1\10\xff\xff\xff\xff\xff\xff\xff\xff\0\0")));
    CHECK_EQ(scene->client.size, 0);
    scene_close(scene);
}

TEST(sglang_merges_events_that_continue_each_other)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 4, .format = kv_event_format_find("sglang")});
    store(scene, 7, 0);
    store(scene, 8, 7);
    store(scene, 9, 7); // a branch of its own
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 3);
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 4);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(ask_for_all(scene));
    CHECK(client_hears(&scene->client,
                       BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\0\x5c\x93" TIME "\x93"
                             "\x97\xab"
                             "BlockStored\x92\x07\x08\xc0\x98\1\2\3\4\1\2\3\4\4\xc0\xa3GPU"
                             "\x97\xab"
                             "BlockStored\x91\x09\x07\x94\1\2\3\4\4\xc0\xa3GPU"
                             "\x93\xac"
                             "BlockRemoved\x92\x03\x04\xa3GPU\0"
                             "\1\0\1\10\xff\xff\xff\xff\xff\xff\xff\xff\0\0")));
    scene_close(scene);
}

static void keep(struct scene *scene, uint64_t key, uint64_t parent)
{
    const uint32_t tokens[] = {1, 2, 3, 4};
    kv_publisher_stored(scene->publisher, &(struct kv_stored){.keys = &key,
                                                              .token_ids = tokens,
                                                              .count = 1,
                                                              .has_parent = true,
                                                              .parent = parent,
                                                              .tier = KV_TIER_HOST});
}

TEST(the_host_is_a_medium_of_its_own)
{
    struct scene *scene =
        scene_open(&(struct kv_publisher_options){.topic = "kv", .block_tokens = 4});
    keep(scene, 8, 7);
    kv_publisher_removed(scene->publisher, KV_TIER_HOST, 8);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(ask_for_all(scene));
    CHECK(
        client_hears(&scene->client, BYTES("\1\0\1\2kv\1\10\0\0\0\0\0\0\0\0\0\xe8\x93" TIME "\x92"
                                           "\x8b\xa4type\xab"
                                           "BlockStored\xac"
                                           "block_hashes\x91\x08\xb1parent_block_hash\x07"
                                           "\xa9token_ids\x94\1\2\3\4\xaa"
                                           "block_size\4\xa7lora_id\xc0\xa6medium\xa3"
                                           "CPU\xa9lora_name\xc0\xaa"
                                           "extra_keys\x91\xc0\xa9group_idx\0\xa8locality\xa5LOCAL"
                                           "\x85\xa4type\xac"
                                           "BlockRemoved\xac"
                                           "block_hashes\x91\x08\xa6medium\xa3"
                                           "CPU\xa9group_idx\0\xa8locality\xa5LOCAL\0")));
    scene_close(scene);
}

TEST(sglang_has_another_word_for_the_host_and_merges_within_a_tier)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 4, .format = kv_event_format_find("sglang")});
    store(scene, 7, 0);
    keep(scene, 8, 7);
    kv_publisher_removed(scene->publisher, KV_TIER_HOST, 3);
    kv_publisher_removed(scene->publisher, KV_TIER_HOST, 4);
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 5);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(ask_for_all(scene));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\0\x79\x93" TIME "\x94"
                                             "\x97\xab"
                                             "BlockStored\x91\x07\xc0\x94\1\2\3\4\4\xc0\xa3GPU"
                                             "\x97\xab"
                                             "BlockStored\x91\x08\x07\x94\1\2\3\4\4\xc0\xaa"
                                             "CPU_PINNED"
                                             "\x93\xac"
                                             "BlockRemoved\x92\x03\x04\xaa"
                                             "CPU_PINNED"
                                             "\x93\xac"
                                             "BlockRemoved\x91\x05\xa3GPU\0")));
    scene_close(scene);
}

TEST(formats_without_a_host_medium_leave_its_blocks_out)
{
    static const char *const names[] = {"vllm-0.9.0", "vllm-0.9.1", "trtllm"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct scene *scene = scene_open(&(struct kv_publisher_options){
            .block_tokens = 4, .format = kv_event_format_find(names[i])});
        keep(scene, 8, 7);
        kv_publisher_removed(scene->publisher, KV_TIER_HOST, 8);
        kv_publisher_flush(scene->publisher, SECONDS);
        CHECK_EQ(status_of(scene).next_sequence, 0);
        scene_close(scene);
    }
}

TEST(an_adapter_is_named_with_its_blocks)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 1, .format = kv_event_format_find("vllm-0.17")});
    const uint64_t keys[] = {7, 8};
    const uint32_t tokens[] = {1, 2};
    kv_publisher_stored(
        scene->publisher,
        &(struct kv_stored){
            .keys = keys, .token_ids = tokens, .count = 2, .lora_name = "a", .lora_id = 3});
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(ask_for_all(scene));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\0\x2f\x93" TIME "\x91"
                                             "\x99\xab"
                                             "BlockStored\x92\x07\x08\xc0\x92\1\2\1\3\xa3GPU\xa1"
                                             "a\x92\x91\xa1"
                                             "a\x91\xa1"
                                             "a\0")));
    scene_close(scene);
}

TEST(after_a_stop_it_starts_at_0_without_subscribers)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 4, .format = kv_event_format_find("vllm-0.10.2")});
    CHECK(subscribe(scene));
    kv_publisher_cleared(scene->publisher);
    kv_publisher_flush(scene->publisher, SECONDS);
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 1);
    uint16_t port = status_of(scene).port;
    kv_publisher_stop(scene->publisher);
    CHECK(client_is_dropped(&scene->client));
    client_close(&scene->client);
    client_open(&scene->client, scene->loop, port);
    CHECK(client_is_dropped(&scene->client)); // the publisher has stopped
    CHECK_EQ(status_of(scene).subscription_count, 0);
    CHECK_EQ(status_of(scene).log_batches, 0);
    client_close(&scene->client);

    CHECK(kv_publisher_start(scene->publisher) == STATUS_OK);
    CHECK_EQ(status_of(scene).port, port);
    CHECK(subscribe(scene));
    kv_publisher_flush(scene->publisher, SECONDS); // what was pending is gone
    kv_publisher_cleared(scene->publisher);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(
        client_hears(&scene->client, BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\0\x1e\x93" TIME "\x91\x91\xb0"
                                           "AllBlocksCleared\0")));
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(a_batch_of_more_than_255_bytes_has_a_long_frame)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 1, .format = kv_event_format_find("vllm-0.9.0")});
    uint64_t keys[300] = {0};
    uint32_t tokens[300] = {0};
    kv_publisher_stored(scene->publisher,
                        &(struct kv_stored){.keys = keys, .token_ids = tokens, .count = 300});
    CHECK(subscribe(scene));
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(client_hears(&scene->client,
                       BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\2\x79\x92" TIME "\x91\x96\xab"
                             "BlockStored\xdc\1\x2c")));
    scene_close(scene);
}

TEST(an_event_that_does_not_fit_leaves_a_gap_in_the_numbers)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){.block_tokens = 4});
    for (uint32_t i = 0; i < kv_publisher_pending_blocks_max; i++) {
        kv_publisher_removed(scene->publisher, KV_TIER_GPU, i);
    }
    CHECK_EQ(status_of(scene).lost_count, 0);
    kv_publisher_cleared(scene->publisher);
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 1);
    CHECK_EQ(status_of(scene).lost_count, 2);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).next_sequence, 2); // batch 1; 0 stands for what was lost
    CHECK_EQ(status_of(scene).batch_count, 1);
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 1);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).next_sequence, 3);
    scene_close(scene);
}

TEST(tokens_that_do_not_fit_are_lost_with_their_event)
{
    struct scene *scene = scene_open(
        &(struct kv_publisher_options){.block_tokens = kv_publisher_pending_tokens_max / 2 + 1});
    static uint32_t tokens[kv_publisher_pending_tokens_max + 2];
    const uint64_t keys[] = {1, 2};
    struct kv_stored stored = {.keys = keys, .token_ids = tokens, .count = 2};
    kv_publisher_stored(scene->publisher, &stored);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).lost_count, 1);
    CHECK_EQ(status_of(scene).batch_count, 0);
    CHECK_EQ(status_of(scene).next_sequence, 1);
    stored.count = 1;
    kv_publisher_stored(scene->publisher, &stored);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).batch_count, 1);
    CHECK_EQ(status_of(scene).next_sequence, 2);
    scene_close(scene);
}

TEST(a_batch_larger_than_the_log_is_lost_and_its_number_with_it)
{
    struct scene *scene =
        scene_open(&(struct kv_publisher_options){.block_tokens = 4, .log_size_max = 200});
    kv_publisher_removed(scene->publisher, KV_TIER_GPU, 1);
    kv_publisher_flush(scene->publisher, SECONDS);
    for (uint64_t key = 0; key < 10; key++) {
        kv_publisher_removed(scene->publisher, KV_TIER_GPU, key);
    }
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).next_sequence, 2);
    CHECK_EQ(status_of(scene).batch_count, 1);
    CHECK_EQ(status_of(scene).lost_count, 1);
    CHECK_EQ(status_of(scene).log_batches, 1);
    scene_close(scene);
}

TEST(the_log_is_bounded_in_batches_and_bytes)
{
    struct scene *scene = scene_open(
        &(struct kv_publisher_options){.block_tokens = 4, .batches_max = 5, .log_size_max = 300});
    for (uint64_t key = 0; key < 100; key++) {
        kv_publisher_removed(scene->publisher, KV_TIER_GPU, key);
        kv_publisher_flush(scene->publisher, SECONDS);
        CHECK(status_of(scene).log_batches <= 5);
        CHECK(status_of(scene).log_size <= 300);
    }
    CHECK_EQ(status_of(scene).batch_count, 100);
    CHECK_EQ(status_of(scene).log_batches, 4);
    scene_close(scene);
}

TEST(a_salt_is_named_with_the_first_block_and_copied)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 1, .format = kv_event_format_find("vllm-0.17")});
    char salt[] = "pinch";
    for (uint64_t key = 7; key < 9; key++) {
        kv_publisher_stored(scene->publisher, &(struct kv_stored){.keys = &key,
                                                                  .token_ids = (uint32_t[]){3},
                                                                  .count = 1,
                                                                  .has_parent = key > 7,
                                                                  .parent = 7,
                                                                  .salt = salt});
    }
    memset(salt, 'x', 5);
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK(ask_for_all(scene));
    CHECK(client_hears(&scene->client,
                       BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\0\x48\x93" TIME "\x92"
                             "\x99\xab"
                             "BlockStored\x91\x07\xc0\x91\3\1\xc0\xa3GPU\xc0\x91\x91\xa5pinch"
                             "\x99\xab"
                             "BlockStored\x91\x08\7\x91\3\1\xc0\xa3GPU\xc0\x91\xc0\0")));
    scene_close(scene);
}

TEST(salts_that_do_not_fit_are_lost_with_their_event)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 1, .format = kv_event_format_find("sglang"), .log_size_max = 1 << 20});
    enum { salt_size = 1 << 16 };
    static char salt[salt_size];
    memset(salt, 's', sizeof(salt) - 1);
    for (uint64_t key = 0; key < 6; key++) {
        salt[0] = (char)('a' + key);
        kv_publisher_stored(scene->publisher, &(struct kv_stored){.keys = &key,
                                                                  .token_ids = (uint32_t[]){3},
                                                                  .count = 1,
                                                                  .salt = salt});
    }
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).lost_count, 2);
    CHECK_EQ(status_of(scene).next_sequence, 2);
    CHECK(status_of(scene).log_size > kv_publisher_pending_salts_max);
    scene_close(scene);
}

// The largest that pending events can be, in the longest form.
TEST(the_largest_batch_fits_its_space)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 16, .is_digest = true, .rank = INT32_MAX, .log_size_max = 128 << 20});
    uint32_t tokens[16];
    char name[256] = {0};
    memset(tokens, 0xff, sizeof(tokens));
    memset(name, 'n', sizeof(name) - 1);
    for (uint64_t key = 0; key < kv_publisher_pending_blocks_max; key++) {
        uint64_t hash = UINT64_MAX - key;
        kv_publisher_stored(
            scene->publisher,
            &(struct kv_stored){
                .keys = &hash, .token_ids = tokens, .count = 1, .has_parent = true, .parent = key});
    }
    kv_publisher_flush(scene->publisher, SECONDS);
    CHECK_EQ(status_of(scene).lost_count, 0);
    CHECK_EQ(status_of(scene).batch_count, 1);
    CHECK(status_of(scene).log_size > 20000000);
    scene_close(scene);
}

TEST(addresses_that_cannot_be_bound_are_named)
{
    struct scene *scene = scene_open(&(struct kv_publisher_options){.block_tokens = 4});
    struct kv_publisher *other = NULL;
    char error[kv_publisher_error_size];
    struct kv_publisher_options options = {
        .loop = scene->loop, .host = "localhost", .block_tokens = 4};

    CHECK(kv_publisher_create(&options, &other, error) == STATUS_MALFORMED);
    CHECK_STR(error, "'localhost' is not an IP address");
    options.host = "127.0.0.1";
    options.port = status_of(scene).port;
    CHECK(kv_publisher_create(&options, &other, error) == STATUS_IO);
    CHECK(strstr(error, "Address already in use") != NULL);
    options.port = 0;
    options.has_replay = true;
    options.replay_port = status_of(scene).replay_port;
    CHECK(kv_publisher_create(&options, &other, error) == STATUS_IO);
    CHECK(strstr(error, "Address already in use") != NULL);

    char topic[kv_publisher_topic_max + 2];
    memset(topic, 't', sizeof(topic));
    topic[sizeof(topic) - 1] = '\0';
    options.has_replay = false;
    options.topic = topic;
    CHECK(kv_publisher_create(&options, &other, error) == STATUS_TOO_LARGE);
    topic[kv_publisher_topic_max] = '\0';
    CHECK(kv_publisher_create(&options, &other, error) == STATUS_OK);
    struct kv_publisher_status status;
    kv_publisher_status(other, &status);
    CHECK_EQ(status.replay_port, 0);
    kv_publisher_destroy(&other);
    scene->client.fd = -1;
    scene_close(scene);
}

// Listens until so many bytes have come.
static bool client_has(struct zmtp_client *client, size_t size)
{
    for (int i = 0; i < 1000 && client->size < size && !client->is_closed; i++) {
        loop_turn(client->loop, 5);
        client_hear(client);
    }
    return client->size == size;
}

TEST(batches_that_get_lost_are_gaps_to_subscribers_and_are_replayed)
{
    enum { count = 200, size = 44, number_at = 11 }; // of a batch that says AllBlocksCleared
    struct scene *scene = scene_open(&(struct kv_publisher_options){
        .block_tokens = 4, .format = kv_event_format_find("vllm-0.10.2"), .seed = 7});
    CHECK(subscribe(scene));
    kv_publisher_set_loss(scene->publisher, 0.5);
    for (uint32_t i = 0; i < count; i++) {
        kv_publisher_cleared(scene->publisher);
        kv_publisher_flush(scene->publisher, SECONDS);
    }
    kv_publisher_set_loss(scene->publisher, 0);
    kv_publisher_cleared(scene->publisher);
    kv_publisher_flush(scene->publisher, SECONDS);
    struct zmtp_client *client = &scene->client;
    for (int i = 0; i < 1000 && (client->size < size ||
                                 client->bytes[client->size - size + number_at] != count);
         i++) {
        loop_turn(scene->loop, 5);
        client_hear(client);
    }
    size_t heard = client->size / size;
    CHECK(heard > count * 2 / 5 && heard < count * 3 / 5);
    for (size_t i = 1; i < heard; i++) {
        CHECK(client->bytes[i * size + number_at] > client->bytes[(i - 1) * size + number_at]);
    }
    CHECK_EQ(status_of(scene).log_batches, count + 1);
    client_close(client);
    // Here an empty frame comes first, and no topic; the end is 14 bytes.
    CHECK(ask_for_all(scene));
    CHECK(client_has(client, (size_t)(count + 1) * size + 14));
    scene_close(scene);
}
