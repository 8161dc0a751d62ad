// SPDX-License-Identifier: Apache-2.0

#include "dialect/tiny_dialect.h"
#include "proxy/rig.h"
#include "test.h"

enum { long_size = 400000, message_max = 1 << 20 };

static struct rig rig;
static struct tiny_set tiny;
static char message[message_max];
static char head[4096];
static const char *members = ""; // of each request, before its prompt

// With a policy that looks at prompts.
static bool start(const char *more)
{
    char config[256];
    snprintf(config, sizeof(config), "policy: warm\n%s", more);
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){.is_trusted = true}));
    return rig_start(&rig, &(struct rig_options){.config = config, .dialects = &tiny.set});
}

static bool stop(void)
{
    bool stopped = rig_stop(&rig);
    tiny_set_close(&tiny);
    return stopped;
}

// A completion with a prompt of that size; words with a number each.
static void write_request(size_t size, unsigned seed)
{
    static char body[message_max];
    struct text out = text_over(body, sizeof(body));
    struct text whole = text_over(message, sizeof(message) - 1);

    text_add_format(&out, "{%s\"prompt\":\"", members);
    for (unsigned i = seed; out.size < size; i += 7919) {
        text_add_format(&out, "word%u and ", i);
    }
    text_add_str(&out, "\"}");
    text_add_format(&whole,
                    "POST /v1/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                    "x-warmpath-decision: 1\r\ncontent-length: %zu\r\n\r\n",
                    out.size);
    text_add(&whole, text_slice(&out));
    ASSERT(!whole.overflow);
    message[whole.size] = '\0';
}

static uint64_t exact_count(void)
{
    return atomic_load(&tiny.set.dialects[0]->shared.by_ids_count);
}

static bool pass(struct peer *client)
{
    size_t size = strlen(message);
    struct peer *backend = NULL;
    // More than sockets hold: the sending waits for the backend's reading.
    bool sent = peer_send_bytes(client, message, size);
    backend = rig_accept(&rig, 0);
    bool good = sent && peer_read_head(backend, head, sizeof(head)) &&
                peer_expect(backend, strstr(message, "\r\n\r\n") + 4) && peer_send(backend, RIG_OK);
    good = good && peer_read_head(client, head, sizeof(head)) && peer_expect(client, "ok");
    peer_close(backend);
    return good;
}

TEST(a_long_prompt_arrives_whole_and_has_exact_ids)
{
    CHECK(start(""));
    struct peer *client = rig_connect(&rig);
    write_request(long_size, 1);
    CHECK(pass(client));
    CHECK_EQ(exact_count(), 1);
    CHECK(pass(client)); // the lane is free again
    CHECK_EQ(exact_count(), 2);
    CHECK(stop());
}

TEST(a_prompt_beyond_the_limit_goes_by_its_text)
{
    CHECK(start("tokens: {prompt_size: 64k}\n"));
    struct peer *client = rig_connect(&rig);
    write_request(long_size, 1);
    CHECK(pass(client));
    CHECK_EQ(exact_count(), 0);
    CHECK_EQ(atomic_load(&tiny.set.dialects[0]->shared.by_text_count), 1);
    CHECK(stop());
}

TEST(several_long_prompts_take_turns)
{
    enum { client_count = 3 };
    struct peer *clients[client_count];
    CHECK(start(""));
    for (unsigned i = 0; i < client_count; i++) {
        clients[i] = rig_connect(&rig);
        write_request(long_size / 4, i);
        CHECK(peer_send(clients[i], message));
    }
    for (unsigned i = 0; i < client_count; i++) {
        struct peer *backend = rig_accept(&rig, 0);
        CHECK(peer_read_head(backend, head, sizeof(head)));
        CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n"
                                 "\r\nok"));
    }
    for (unsigned i = 0; i < client_count; i++) {
        CHECK(peer_read_head(clients[i], head, sizeof(head)));
        CHECK(peer_expect(clients[i], "ok"));
    }
    CHECK_EQ(exact_count(), client_count);
    CHECK(stop());
}

TEST(prompts_are_not_encoded_for_policies_that_do_not_read_them)
{
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){.is_trusted = true}));
    CHECK(rig_start(
        &rig, &(struct rig_options){.config = "policy: round_robin\n", .dialects = &tiny.set}));
    struct peer *client = rig_connect(&rig);
    write_request(long_size, 1);
    CHECK(pass(client));
    CHECK_EQ(exact_count(), 0);
    CHECK(stop());
}

TEST(a_request_without_ids_does_not_wait_for_those_with_ids)
{
    static const char *const model = "m";
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){
                             .is_trusted = true, .models = &model, .model_count = 1}));
    CHECK(
        rig_start(&rig, &(struct rig_options){.config = "policy: warm\n", .dialects = &tiny.set}));
    struct peer *client = rig_connect(&rig);
    write_request(long_size, 1); // it names no model, and so has no tokenizer
    CHECK(pass(client));
    CHECK_EQ(exact_count(), 0);
    CHECK_EQ(atomic_load(&tiny.set.dialects[0]->shared.by_text_count), 0);
    CHECK(stop());
}

TEST(a_long_prompt_under_a_made_up_name_has_the_ids_of_the_model_that_serves_it)
{
    static const char *const model = "m";
    static const struct fleet_model listed = {.name = "m", .document = "{}"};
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){
                             .is_trusted = true, .models = &model, .model_count = 1}));
    CHECK(
        rig_start(&rig, &(struct rig_options){.config = "policy: warm\n", .dialects = &tiny.set}));
    fleet_set_models(rig.fleet, rig.backends[0].backend, &listed, 1);
    fleet_set_any_name(rig.fleet, FLEET_ANY_NAME_ON);
    CHECK(rig_publish(&rig));
    struct peer *client = rig_connect(&rig);
    members = "\"model\":\"made-up\",";
    write_request(long_size, 1);
    members = "";
    CHECK(pass(client));
    CHECK_EQ(exact_count(), 1);
    CHECK(stop());
}

TEST(a_client_that_leaves_gives_the_lane_back)
{
    CHECK(start(""));
    for (unsigned i = 0; i < 5; i++) {
        struct peer *gone = rig_connect(&rig);
        write_request(long_size, i);
        CHECK(peer_send(gone, message));
        peer_reset(gone);
    }
    CHECK(rig_becomes_idle(&rig));
    CHECK(stop());
}
